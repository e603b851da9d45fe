import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const built = (file: string) =>
  JSON.stringify(fileURLToPath(new URL(`../../dist/server/process/${file}`, import.meta.url)));

test('methods of strings are fast in a serving process, whatever its modules did to String.prototype', () => {
  const script = `
    class Text extends String {}
    await import(${built('app.js')});
    const { restoreStringMethods } = await import(${built('string-methods.js')});
    const before = %HasFastProperties(String.prototype);
    restoreStringMethods();
    console.log(before, %HasFastProperties(String.prototype), Text.name);`;
  const options = ['--allow-natives-syntax', '--input-type=module', '--eval', script];
  const { stdout, stderr } = spawnSync(process.execPath, options, { encoding: 'utf8' });
  expect({ stdout, stderr }).toEqual({ stdout: 'false true Text\n', stderr: '' });
});
