/**
 * Checks the native binary of uWebSockets.js against known hashes: `node server/operate/setup/server-binary.mjs`.
 *
 * The binary parses every request to Weir, and is published in compiled form only. package-lock.json pins its package, but npm checks
 * that only during installation. This check also detects later changes in node_modules.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { leaveCleanly, Refusal } from './run.mjs';

/** The release of the hashes below, as named in package-lock.json. */
export const serverBinaryRelease = 'uwebsockets@3.0.6';

/**
 * SHA-256 of each supported binary by platform, architecture and ABI of Node (115: Node 20, 127: 22, 137: 24, 141: 25).
 *
 * Source: the npm package uwebsockets@3.0.6, whose archive had the SHA-512 of package-lock.json. Compared with: the same eight files in
 * the repository of that package, github.com/NPM-Package-Jaykumar/uWebSockets at 85af137 (release 3.0.5), which are identical byte for byte.
 * Not compared with: the releases of uNetworking/uWebSockets.js itself. The guide Development (uWebSockets.js) lists what else
 * was compared, and how to build a binary and put its hash here.
 * After an upgrade: verify the new package the same way, then replace the release and the hashes.
 * @type {Record<string, string>}
 */
export const serverBinaryHashes = {
  linux_x64_115: 'f4fa5d7b697529b45ac8aa3d57385d9af51bc1d2b26aa9f5b68ca4361542e665',
  linux_x64_127: '78e38a9a163b1cf33ce539619e5908111dea95a12e7943d95fbcdd524879caa8',
  linux_x64_137: '3b549c14e01d9d1faf234cdf4b6f0fb08158605e3692cd0eb1b905e327bd3449',
  linux_x64_141: 'd22bae7642b872152cd0eeb682c6c2ffd186e91af8cf18cdf98be984a6549d49',
  linux_arm64_115: '034e0fcccdc08f90df3b130f421516311831b1352fe38eab91abc2984c2fdf3a',
  linux_arm64_127: 'a7d9bc3ec166421a49416d5ea4f49118ae68ea1dbf8a765c4f45a79b0b6adb13',
  linux_arm64_137: 'b6eb007d627e00bcce03ad38f197124e9027c03f6fe784b37f97b8a6ea709cb4',
  linux_arm64_141: '1317f2e69ea1924ee8dd94ed02a3e6beb08e55d8b06f18caeda3d67a02857aee',
};

/** Null when the binary that this Node loads from `root` has its known hash, otherwise the reason, for people. Takes about 10 ms. */
export function serverBinaryProblem(root) {
  const name = `${process.platform}_${process.arch}_${process.versions.modules}`;
  const path = join(root, 'node_modules', 'uWebSockets.js', `uws_${name}.node`);
  const actual = hashOf(path);
  if (actual === serverBinaryHashes[name] && actual !== undefined) return null;
  const finding = actual === undefined ? 'is missing' : `has the SHA-256 ${actual}, not that of ${serverBinaryRelease}`;
  return `${path} ${finding}. Weir does not load it. Find out what changed it, then remove node_modules and run: npm run setup`;
}

function hashOf(path) {
  try {
    return createHash('sha256').update(readFileSync(path)).digest('hex');
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await leaveCleanly(() => {
    const problem = serverBinaryProblem(fileURLToPath(new URL('../../..', import.meta.url)));
    if (problem !== null) throw new Refusal(problem);
  });
}
