/**
 * Coverage of lines by tests and by the processes and threads that they start from dist/, which `vitest --coverage` does not see: Node
 * writes what V8 counted to NODE_V8_COVERAGE when one of them exits. A process that is killed writes nothing.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/**
 * Adds the lines that ran in dist/ to the report of vitest.
 * @param root of the project
 * @param report path of lcov.info, which is replaced
 * @param folder value of NODE_V8_COVERAGE
 * @returns `{ lines, own, all }`: how many lines there are, how many ran in the tests' own processes, and how many in any process
 */
export function addCoverageOfDist(root, report, folder) {
  const ran = sourceLines(root, charactersRun(root, folder));
  const counts = { lines: 0, own: 0, all: 0 };
  const files = readFileSync(report, 'utf8').split(/(?<=^end_of_record\n)/m);
  writeFileSync(report, files.map((file) => addLines(file, ran, counts)).join(''));
  return counts;
}

/** Returns a map from each file below dist/ to an array that has 1 for each character that ran in any process. */
function charactersRun(root, folder) {
  const dist = pathToFileURL(join(root, 'dist/')).href;
  const ran = new Map();
  for (const name of readdirSync(folder)) {
    const { result } = JSON.parse(readFileSync(join(folder, name), 'utf8'));
    for (const { url, functions } of result.filter((script) => script.url.startsWith(dist))) {
      const ranges = functions.flatMap((one) => one.ranges);
      const here = new Uint8Array(ranges[0].endOffset);
      // An inner range follows the one that contains it.
      for (const { startOffset, endOffset, count } of ranges) here.fill(count > 0 ? 1 : 0, startOffset, endOffset);
      const path = relative(root, fileURLToPath(url));
      const before = ran.get(path);
      ran.set(path, before === undefined ? here : before.map((one, at) => one | here[at]));
    }
  }
  return ran;
}

/** Returns a map from each source to the set of its lines that ran, from 1. */
function sourceLines(root, ran) {
  const lines = new Map();
  for (const [path, characters] of ran) {
    // A test removes the scripts that it has built.
    if (!existsSync(join(root, path))) continue;
    const code = readFileSync(join(root, path), 'utf8');
    // The file of the client package has no map; tests import its sources.
    if (!code.includes('\n//# sourceMappingURL=')) continue;
    const map = new SourceMap(JSON.parse(readFileSync(join(root, `${path}.map`), 'utf8')));
    let start = 0;
    for (const [number, line] of code.split('\n').entries()) {
      for (const { index } of line.matchAll(/[\w$]+/g)) {
        const { originalSource, originalLine } = characters[start + index] === 1 ? map.findEntry(number, index) : {};
        if (originalSource === undefined) continue;
        const source = relative(root, resolve(root, dirname(path), originalSource));
        if (!lines.has(source)) lines.set(source, new Set());
        lines.get(source).add(originalLine + 1);
      }
      start += line.length + 1;
    }
  }
  return lines;
}

/** The part of lcov.info for one file, with 1 for lines that ran in dist/ alone. */
function addLines(file, ran, counts) {
  const source = /^SF:(.*)$/m.exec(file)?.[1];
  let hit = 0;
  const added = file.replace(/^DA:(\d+),(\d+)$/gm, (all, line, count) => {
    const inDist = ran.get(source)?.has(Number(line)) ?? false;
    counts.lines += 1;
    if (count !== '0') counts.own += 1;
    if (count !== '0' || inDist) hit += 1;
    return count === '0' && inDist ? `DA:${line},1` : all;
  });
  counts.all += hit;
  return added.replace(/^LH:\d+$/m, `LH:${hit}`);
}
