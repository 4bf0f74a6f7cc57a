/* What Python can call. All other functions are hidden. */

#ifndef RETENTIVE_EXPORT_H
#define RETENTIVE_EXPORT_H

#define EXPORT __attribute__((visibility("default")))

#endif
