/** A client in TypeScript that openapi-typescript generates from openapi.json. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { startTestApp } from '../../helpers/app.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';

const run = promisify(execFile);
const app = shared(startTestApp);
const modules = join(import.meta.dirname, '../../../node_modules');

/** The generator needs the compiler as a library, which TypeScript 7 is not. */
const hooks = `export const resolve = (name, context, next) => next(name === 'typescript' ? '@tsd/typescript' : name, context);`;
const asUrl = (source: string) => `data:text/javascript,${encodeURIComponent(source)}`;
const withLibrary = asUrl(`import { register } from 'node:module'; register(${JSON.stringify(asUrl(hooks))});`);

const program = `import type { components, operations, paths } from './weir.js';

type Json<Part> = Part extends { content: { 'application/json': infer Body } } ? Body : never;
type Input<Name extends keyof operations> = Json<NonNullable<operations[Name]['requestBody']>>;
type Claimed = Json<operations['claim']['responses'][200]>;

const url = (path: keyof paths) => 'http://127.0.0.1:8080' + path;
const post = (path: keyof paths, body: unknown) => fetch(url(path), { method: 'POST', body: JSON.stringify(body) });

export async function create(): Promise<string> {
  const input: Input<'createWebhook'> = { name: 'shop', signature_scheme: 'stripe', generate_secret: true };
  const webhook = (await (await post('/api/v1/webhooks', input)).json()) as components['schemas']['Webhook'];
  return webhook.url;
}

export async function work(): Promise<string[]> {
  const input: Input<'claim'> = { max: 10, wait_seconds: 30 };
  const claimed = (await (await post('/api/v1/agent/deliveries/claim', input)).json()) as Claimed;
  return claimed.deliveries.map(({ receipt, event }) => receipt + (event.body ?? event.body_base64 ?? ''));
}

// @ts-expect-error: a name is a text.
export const wrongMember: Input<'createWebhook'> = { name: 1 };
// @ts-expect-error: the paths are known.
export const wrongPath = url('/api/v1/nothing');
`;

test('compiles in strict mode, and refuses what the document does not say', async () => {
  const project = temporaryDirectory();
  const document = await (await fetch(`${app.url}/api/v1/openapi.json`)).text();
  await writeFile(join(project, 'openapi.json'), document);
  await writeFile(join(project, 'program.ts'), program);
  const generator = join(modules, 'openapi-typescript/bin/cli.js');
  await run(process.execPath, ['--import', withLibrary, generator, 'openapi.json', '--output', 'weir.d.ts'], {
    cwd: project,
  });
  const options = ['--noEmit', '--strict', '--target', 'es2022', '--lib', 'es2022,dom', '--module', 'nodenext'];
  const { stdout } = await run(process.execPath, [join(modules, 'typescript/bin/tsc'), ...options, 'program.ts'], {
    cwd: project,
  });
  expect(stdout).toBe('');
});
