import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const built = (file: string) =>
  JSON.stringify(fileURLToPath(new URL(`../../dist/server/process/${file}`, import.meta.url)));

test('methods of strings are fast again after a class that extends String', () => {
  const script = `
    await import(${built('app.js')});
    const { restoreStringMethods } = await import(${built('string-methods.js')});
    class Text extends String {}
    const before = %HasFastProperties(String.prototype);
    restoreStringMethods();
    console.log(before, %HasFastProperties(String.prototype), Text.name);`;
  const options = ['--allow-natives-syntax', '--input-type=module', '--eval', script];
  const { stdout, stderr } = spawnSync(process.execPath, options, { encoding: 'utf8' });
  expect({ stdout, stderr }).toEqual({ stdout: 'false true Text\n', stderr: '' });
});
