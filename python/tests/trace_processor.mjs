// Perfetto's trace processor as it is compiled for Perfetto's page, without the page: requests on standard input, replies on standard
// output. The argument is the page's own script that runs it.
import { readFileSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";

const { stdin } = process;
const script = process.argv[2];
const file = name => readFileSync(join(dirname(script), name));

// It runs in a worker of a page, and nowhere else: here is what it uses of one.
process.once("beforeExit", () => {
  // Nothing is left to be done but what it is asked for: it has begun.
  stdin.on("data", bytes => port.onmessage({ data: new Uint8Array(bytes) }));
});
globalThis.process = undefined;
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = class {};
globalThis.location = { href: "" };
globalThis.XMLHttpRequest = class {
  open(_, name) {
    this.name = name;
  }
  send() {
    this.response = new Uint8Array(file(this.name)).buffer;
  }
};
globalThis.fetch = async name => new Response(file(name), { headers: { "Content-Type": "application/wasm" } });
console.log = console.warn = console.error;
(0, eval)(file(script.slice(dirname(script).length + 1)).toString());

const port = {
  postMessage(bytes) {
    for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at);
  },
};
globalThis.onmessage({ data: port });
