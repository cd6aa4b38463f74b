// Submits with add and addBulk.
"use strict";

const { Queue } = require("bullmq");
const { Redis } = require("ioredis");
const peer = require("../../peer.js");

let queue;

peer.serve({
  async open() {
    queue = new Queue(peer.QUEUE, { connection: new Redis(peer.URL, { maxRetriesPerRequest: null }) });
    await queue.waitUntilReady();
  },
  async setup() {},
  submit: (payload) => queue.add("noop", payload, { removeOnComplete: true }),
  submitMany: (payloads) =>
    queue.addBulk(payloads.map((data) => ({ name: "noop", data, opts: { removeOnComplete: true } }))),
});
