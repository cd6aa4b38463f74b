// What a system's programs for node share; the twin of peer.py, which says how it works.
"use strict";

const fs = require("node:fs");
const readline = require("node:readline");

const BULK_JOBS = 1000;
const URL = process.env.BENCH_URL;
const QUEUE = process.env.BENCH_QUEUE || "bench";
const CONNECTIONS = 10;
const TEXT = "x".repeat(52);

const now = () => Number(process.hrtime.bigint() / 1000n);
const newPayload = () => ({ order: 4711, submitted: now(), text: TEXT });
const many = (count) => Array.from({ length: count }, newPayload);
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

let file;
const entry = Buffer.alloc(16);

function record(payload) {
  if (file === undefined) file = fs.openSync(process.env.BENCH_LEDGER, "a", 0o666);
  entry.writeBigUInt64LE(BigInt(payload.submitted), 0);
  entry.writeBigUInt64LE(BigInt(now()), 8);
  fs.writeSync(file, entry);
}

function commands(client) {
  const until = async (deadline) => {
    let jobs = 0;
    for (; now() < deadline; jobs++) await client.submit(newPayload());
    return jobs;
  };
  return {
    open: () => client.open(),
    setup: () => client.setup(),
    async fill({ jobs }) {
      const started = now();
      for (let left = jobs; left > 0; left -= BULK_JOBS) await client.submitMany(many(Math.min(left, BULK_JOBS)));
      return { jobs, seconds: (now() - started) / 1e6 };
    },
    async bulk({ seconds }) {
      const started = now();
      let jobs = 0;
      for (; now() < started + seconds * 1e6; jobs += BULK_JOBS) await client.submitMany(many(BULK_JOBS));
      return { jobs, seconds: (now() - started) / 1e6 };
    },
    async singles({ producers, seconds }) {
      const started = now();
      const counts = await Promise.all(Array.from({ length: producers }, () => until(started + seconds * 1e6)));
      const jobs = counts.reduce((sum, count) => sum + count, 0);
      return { jobs, started, ended: now(), seconds: (now() - started) / 1e6 };
    },
    async pace({ jobs, interval }) {
      for (let job = 0; job < jobs; job++) {
        await client.submit(newPayload());
        await sleep((0.5 + Math.random()) * interval);
      }
      return { jobs };
    },
  };
}

async function serve(client) {
  const known = commands(client);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let answer;
    try {
      const { do: name, ...given } = JSON.parse(line);
      answer = (await known[name](given)) || {};
    } catch (error) {
      answer = { error: String(error) };
    }
    fs.writeSync(1, JSON.stringify(answer) + "\n");
  }
  process.exit(0);
}

module.exports = { URL, QUEUE, CONNECTIONS, record, serve };
