// One worker of fifty jobs at a time.
"use strict";

const { Worker } = require("bullmq");
const { Redis } = require("ioredis");
const peer = require("../../peer.js");

new Worker(peer.QUEUE, async (job) => peer.record(job.data), {
  connection: new Redis(peer.URL, { maxRetriesPerRequest: null }),
  concurrency: 50,
});
process.on("SIGTERM", () => process.exit(0));
