// The worker as its documentation's page on performance sets it: a local queue, batched completion.
"use strict";

const { Logger, run } = require("graphile-worker");
const peer = require("../../peer.js");

const concurrency = 24;
const logger = new Logger(() => (level, message) => {
  if (level === "error" || level === "warning") console.error(message);
});

run({
  logger,
  connectionString: peer.URL,
  taskList: { noop: (payload) => peer.record(payload) },
  preset: {
    worker: {
      concurrentJobs: concurrency,
      maxPoolSize: concurrency + 1,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    },
  },
}).then((runner) => runner.promise);
