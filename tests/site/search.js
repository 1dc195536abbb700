// Runs the search of the built site as a browser's worker does: search.js SITE < queries.json prints, for each query, the pages
// that the list of results shows, each as its address and those of its sections that match.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const workers = path.join(process.argv[2], "assets/javascripts/workers");
const name = fs.readdirSync(workers).find((file) => /^search\..*\.js$/.test(file));
const answers = [];
const receivers = [];
const scope = {
  console: { warn: () => {} }, // lunr's notes about words that two languages share
  importScripts: (...scripts) =>
    scripts.forEach((script) => vm.runInContext(fs.readFileSync(path.join(workers, script), "utf8"), scope)),
  addEventListener: (_, receiver) => receivers.push(receiver),
  postMessage: (message) => answers.push(message),
};
scope.self = scope;
vm.createContext(scope);
vm.runInContext(fs.readFileSync(path.join(workers, name), "utf8"), scope);

const SETUP = 0, READY = 1, QUERY = 2, RESULT = 3;

async function ask(message, expected) {
  for (const receiver of receivers) await receiver({ data: message });
  const answer = answers.pop();
  if (answer === undefined || answer.type !== expected) throw new Error(`expected a message ${expected}, found ${JSON.stringify(answer)}`);
  return answer.data;
}

async function main() {
  const index = JSON.parse(fs.readFileSync(path.join(process.argv[2], "search/search_index.json"), "utf8"));
  index.options = { suggest: false };
  await ask({ type: SETUP, data: index }, READY);
  const found = {};
  for (const query of JSON.parse(fs.readFileSync(0, "utf8"))) {
    const { items } = await ask({ type: QUERY, data: query }, RESULT);
    found[query] = items.map((item) => item.map((section) => section.location));
  }
  console.log(JSON.stringify(found));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
