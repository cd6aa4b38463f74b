// Submits with send and insert, over a pool of ten connections.
"use strict";

const PgBoss = require("pg-boss");
const peer = require("../../peer.js");

let boss;

peer.serve({
  async open() {
    // No upkeep in this process: the worker's does it.
    boss = new PgBoss({ connectionString: peer.URL, max: peer.CONNECTIONS, supervise: false, schedule: false });
    boss.on("error", console.error);
    await boss.start();
  },
  async setup() {
    await this.open();
    await boss.createQueue("noop");
    await boss.stop({ graceful: false });
  },
  submit: (data) => boss.send("noop", data),
  submitMany: (payloads) => boss.insert(payloads.map((data) => ({ name: "noop", data }))),
});
