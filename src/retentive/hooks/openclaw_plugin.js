// Retentive's hooks for OpenClaw. `retentive hook install openclaw` writes this file, and `uninstall` removes it.
// Each event runs a command that reads JSON on standard input and answers within its deadline.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";

const { program, options, capture } = JSON.parse(readFileSync(new URL("./retentive.json", import.meta.url), "utf8"));
const LIMIT_MS = 5000;
const LAST_MESSAGES = 100;

function run(event, sent) {
  return new Promise((resolve) => {
    let output = "";
    const child = spawn(program[0], [...program.slice(1), "hook", event, ...options], {
      stdio: ["pipe", "pipe", "ignore"],
      timeout: LIMIT_MS,
    });
    child.on("error", () => resolve(""));
    child.stdin.on("error", () => {});
    child.stdout.on("data", (data) => (output += data));
    child.on("close", () => {
      try {
        resolve(JSON.parse(output).prependContext ?? "");
      } catch {
        resolve("");
      }
    });
    child.stdin.end(JSON.stringify(sent));
  });
}

function described(context = {}, event = {}) {
  return {
    sessionId: context.sessionId ?? event.sessionId ?? context.sessionKey,
    workspaceDir: context.workspaceDir,
    runId: event.runId ?? context.runId,
  };
}

export default {
  id: "retentive",
  name: "Retentive",
  register(api) {
    api.on(
      "before_prompt_build",
      async (event, context) => {
        const base = described(context, event);
        if (!base.sessionId) return undefined;
        // The context lasts for one turn, so each turn gets the briefing. The prompt's hook leaves out what is in it.
        const briefing = await run("session-start", base);
        const recalled = await run("prompt", { ...base, prompt: event.prompt });
        const prependContext = [briefing, recalled].filter(Boolean).join("\n\n");
        return prependContext ? { prependContext } : undefined;
      },
      { timeoutMs: 2 * LIMIT_MS },
    );

    if (!capture) return;

    api.on("agent_end", async (event, context) => {
      await run("turn-end", { ...described(context, event), messages: (event.messages ?? []).slice(-LAST_MESSAGES) });
    });

    api.on("session_end", async (event, context) => {
      await run("session-end", described(context, event));
    });
  },
};
