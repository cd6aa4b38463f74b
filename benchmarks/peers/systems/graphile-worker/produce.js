// Submits with addJob and addJobs of makeWorkerUtils, over a pool of ten connections.
"use strict";

const { makeWorkerUtils } = require("graphile-worker");
const { Pool } = require("pg");
const peer = require("../../peer.js");

let utils;

peer.serve({
  async open() {
    const pgPool = new Pool({ connectionString: peer.URL, max: peer.CONNECTIONS });
    utils = await makeWorkerUtils({ pgPool });
  },
  async setup() {
    await this.open();
    await utils.migrate();
    await utils.release();
  },
  submit: (payload) => utils.addJob("noop", payload),
  submitMany: (payloads) => utils.addJobs(payloads.map((payload) => ({ identifier: "noop", payload }))),
});
