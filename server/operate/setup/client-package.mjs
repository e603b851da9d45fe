/**
 * The client package: `weir/client` and the command line for machines without Weir, as one file that the server hands out. The same
 * sources make the same bytes on every machine: no times, no owners, and a compressor in JavaScript, since the zlib of Node differs
 * between its releases.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const BLOCK = 512;
const README = `# weir

The client of a Weir server: a library for agents (\`import { Agent } from 'weir/client'\`) and a command line (\`npx --no weir --help\`).
The guide is on your Weir server, at /docs/agents. The package has no dependencies and needs Node 20.19 or newer.
`;

/** The files of the package beside its code: path, and text. @param facts package.json of the project, with the commit */
export function describePackage({ name, version, commit, description, license, engines, exports }, root) {
  const client = Object.fromEntries(
    Object.entries(exports['./client']).map(([key, path]) => [key, path.replace('./dist/client/', './')]),
  );
  const about = {
    name,
    version,
    commit,
    description: `Agents of Weir. ${description}`,
    license,
    type: 'module',
    engines,
    bin: { weir: 'weir.js' },
    exports: { './client': client },
    // For `moduleResolution: node`, which does not read exports.
    typesVersions: { '*': { client: [client.types] } },
  };
  return [
    { path: 'LICENSE', content: readFileSync(join(root, 'LICENSE'), 'utf8') },
    { path: 'README.md', content: README },
    { path: 'package.json', content: `${JSON.stringify(about, null, 2)}\n` },
  ];
}

/** Packs files as npm does. @param files path and bytes @param gzip compresses bytes, the same everywhere */
export function pack(files, gzip) {
  const blocks = files
    .toSorted((a, b) => (a.path < b.path ? -1 : 1))
    .flatMap(({ path, bytes, executable }) => [
      header(`package/${path}`, bytes.length, executable ? '755' : '644'),
      bytes,
      Buffer.alloc((BLOCK - (bytes.length % BLOCK)) % BLOCK),
    ]);
  // Two empty blocks end an archive.
  return Buffer.from(gzip(Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]), { level: 9, mtime: 0 }));
}

/** A header of the POSIX ustar format: https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html, "ustar Interchange Format" */
function header(path, size, mode) {
  if (path.length > 100) throw new Error(`${path} is too long for a header of ustar`);
  const block = Buffer.alloc(BLOCK);
  const octal = (value, digits) => `${value.toString(8).padStart(digits, '0')}\0`;
  block.write(path, 0);
  block.write(`${mode.padStart(7, '0')}\0`, 100);
  block.write(octal(0, 7), 108);
  block.write(octal(0, 7), 116);
  block.write(octal(size, 11), 124);
  // npm's own time, 26 October 1985: some tools refuse times before 1980.
  block.write(octal(499_162_500, 11), 136);
  block.write('        ', 148);
  block.write('0', 156);
  block.write('ustar\0' + '00', 257);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return block;
}
