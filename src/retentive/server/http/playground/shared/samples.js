/** The sample memories that the program ships, and queries to try on them. */

/** @param {App} app */
export async function loadSamples(app) {
  const { memories } = await app.api.get("playground/samples.json");
  await app.api.post("v1/memories", { memories });
  app.refreshScope();
  return memories.length;
}

/**
 * The queries of the samples; null if the store has none of them.
 * @param {App} app
 * @returns {Promise<?string[]>}
 */
export async function sampleQueries(app) {
  const { projects } = await app.api.get("v1/projects");
  if (!projects.some(({ name, memories }) => memories > 0 && name.startsWith("sample-"))) return null;
  return (await app.api.get("playground/samples.json")).queries;
}
