import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFileSync, cpSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import {
  serverBinaryHashes,
  serverBinaryProblem,
  serverBinaryRelease,
} from '../../../server/operate/setup/server-binary.mjs';
import { temporaryDirectory } from '../../helpers/settings.ts';

const project = fileURLToPath(new URL('../../..', import.meta.url));
const ours = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`;

/** A directory with only the set-up program and the binary that this Node loads. */
function copyOfProject(): { root: string; binary: string } {
  const root = temporaryDirectory();
  const binary = join(root, 'node_modules/uWebSockets.js', ours);
  mkdirSync(join(root, 'node_modules/uWebSockets.js'), { recursive: true });
  cpSync(join(project, 'server/operate/setup'), join(root, 'server/operate/setup'), { recursive: true });
  cpSync(join(project, 'node_modules/uWebSockets.js', ours), binary);
  return { root, binary };
}

describe('the hashes of the uWebSockets.js binaries', () => {
  test('match the release in package-lock.json', () => {
    const { packages } = JSON.parse(readFileSync(join(project, 'package-lock.json'), 'utf8'));
    const { name, version } = packages['node_modules/uWebSockets.js'];
    expect(serverBinaryRelease).toBe(`${name}@${version}`);
  });

  // The package has the binaries of all platforms: each is checked on any machine.
  test.each(['x64', 'arm64'].flatMap((arch) => [115, 127, 137, 141].map((abi) => `linux_${arch}_${abi}`)))(
    'include the installed %s',
    (name) => {
      const bytes = readFileSync(join(project, `node_modules/uWebSockets.js/uws_${name}.node`));
      expect(serverBinaryHashes[name]).toBe(createHash('sha256').update(bytes).digest('hex'));
    },
  );
});

describe('the set-up', () => {
  const setUp = (root: string) =>
    spawnSync(process.execPath, ['server/operate/setup/server-binary.mjs'], { cwd: root, encoding: 'utf8' });

  test('accepts the binary of the package', () => {
    const { root } = copyOfProject();
    expect(serverBinaryProblem(root)).toBeNull();
    expect(setUp(root)).toMatchObject({ status: 0, stderr: '' });
  });

  test('refuses a changed one, and names it', () => {
    const { root, binary } = copyOfProject();
    appendFileSync(binary, '\0');
    const hash = createHash('sha256').update(readFileSync(binary)).digest('hex');
    const sentence = `${binary} has the SHA-256 ${hash}, not that of ${serverBinaryRelease}. Weir does not load it. Find out what changed it, then remove node_modules and run: npm run setup`;
    expect(serverBinaryProblem(root)).toBe(sentence);
    expect(setUp(root)).toMatchObject({ status: 1, stdout: '', stderr: `${sentence}\n` });
  });

  test('refuses a missing one', () => {
    const { root, binary } = copyOfProject();
    rmSync(binary);
    expect(serverBinaryProblem(root)).toContain(`${binary} is missing.`);
  });
});
