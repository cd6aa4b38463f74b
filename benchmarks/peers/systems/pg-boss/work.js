// Four pollers with batches of a thousand; see system.toml.
"use strict";

const PgBoss = require("pg-boss");
const peer = require("../../peer.js");

const POLLERS = 4;

async function main() {
  const boss = new PgBoss({ connectionString: peer.URL, max: peer.CONNECTIONS });
  boss.on("error", console.error);
  await boss.start();
  for (let poller = 0; poller < POLLERS; poller++) {
    await boss.work("noop", { batchSize: 1000, pollingIntervalSeconds: 0.5 }, async (jobs) => {
      for (const job of jobs) peer.record(job.data);
    });
  }
  process.on("SIGTERM", () => process.exit(0));
}

main();
