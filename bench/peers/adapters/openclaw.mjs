// Asks OpenClaw's memory search: reads [agent, query, limit] a line, prints the paths of the files that it finds.
import { createInterface } from "node:readline";

const [, , entry, config] = process.argv;
const { getMemorySearchManager } = await import(entry);
for await (const line of createInterface({ input: process.stdin })) {
  const [agentId, query, maxResults] = JSON.parse(line);
  const { manager } = await getMemorySearchManager({ cfg: JSON.parse(config), agentId, purpose: "cli" });
  console.log("found " + JSON.stringify((await manager.search(query, { maxResults })).map((found) => found.path)));
}
