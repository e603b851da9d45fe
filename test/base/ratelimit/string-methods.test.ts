import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { builtScript } from '../../helpers/script.ts';

test('methods of strings are fast again after a class that extends String', async () => {
  const script = await builtScript(`
    import '#server/operate/process/app.ts';
    import { restoreStringMethods } from '#server/base/ratelimit/open.ts';
    class Text extends String {}
    const isFast = new Function('return %HasFastProperties(String.prototype)');
    const before = isFast();
    restoreStringMethods();
    console.log(before, isFast(), Text.name);`);
  const options = ['--allow-natives-syntax', script];
  // Counting for coverage, V8 does not make the methods slow at first.
  const env = { ...process.env, NODE_V8_COVERAGE: undefined };
  const { stdout, stderr } = spawnSync(process.execPath, options, { encoding: 'utf8', env });
  expect({ stdout, stderr }).toEqual({ stdout: 'false true Text\n', stderr: '' });
});
