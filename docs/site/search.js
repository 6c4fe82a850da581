// Ranks the results of the search: pages for users before references, and references before the protocol and the project.
// `var`, because Sphinx declares a default with the same name.
var FOLDERS = {
  "index": 0.9,
  "protocol/": 0.1,
  "project/": 0.2,
  "CHANGELOG": 0.1,
  "reference/": 0.5,
  "request-codes": 0.3,
  "proof": 0.3,
};

var Scorer = {
  score: ([page, , , , score]) => {
    const found = Object.keys(FOLDERS).find((start) => page.startsWith(start));
    return found === undefined ? score : score * FOLDERS[found];
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
