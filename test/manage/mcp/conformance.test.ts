/** The conformance suite of the Model Context Protocol for servers. It sends no bearer token, so a proxy adds one. */
import { execFile } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer, request, type Server } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { addAgent, startAgentApp } from '../../helpers/agents.ts';
import type { TestApp } from '../../helpers/app.ts';
import { freePort } from '../../helpers/ports.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';

/** Scenarios for servers that have what Weir does not offer, or that call tools of the suite's own example server. */
const inapplicable = {
  'the server has no logging': ['logging-set-level', 'tools-call-with-logging'],
  'the server has no completions': ['completion-complete'],
  'a tool of the example server': [
    'tools-call-simple-text',
    'tools-call-image',
    'tools-call-audio',
    'tools-call-embedded-resource',
    'tools-call-mixed-content',
    'tools-call-error',
    'tools-call-with-progress',
    'json-schema-2020-12',
    'http-custom-header-server-validation',
  ],
  'a stateless server asks clients nothing': [
    'tools-call-sampling',
    'tools-call-elicitation',
    'elicitation-sep1034-defaults',
    'elicitation-sep1330-enums',
    ...[
      'basic-elicitation',
      'basic-sampling',
      'basic-list-roots',
      'request-state',
      'multiple-input-requests',
      'multi-round',
      'missing-input-response',
      'non-tool-request',
      'result-type',
      'tampered-state',
      'capability-check',
      'ignore-extra-params',
    ].map((name) => `input-required-result-${name}`),
  ],
  'the server has no resources': [
    'resources-list',
    'resources-read-text',
    'resources-read-binary',
    'resources-templates-read',
    'resources-subscribe',
    'resources-unsubscribe',
    'sep-2164-resource-not-found',
  ],
  'the server has no prompts': [
    'prompts-list',
    'prompts-get-simple',
    'prompts-get-with-args',
    'prompts-get-embedded-resource',
    'prompts-get-with-image',
  ],
  'some of its checks need such a tool, or prompts and resources; see below': ['server-stateless', 'caching'],
};
/** Scenarios of earlier revisions that need streams: only a call that asks for progress gets one. */
const withoutStreams = ['server-sse-polling', 'server-sse-multiple-streams'];

const suite = fileURLToPath(
  new URL('../../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
);

let app: TestApp;
let proxy: Server;
const directory = temporaryDirectory();
let url: string;
beforeAll(async () => {
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  app = await startAgentApp({ PUBLIC_URL: url });
  const { token } = await addAgent(app);
  proxy = createServer((incoming, answer) => {
    const headers = { ...incoming.headers, authorization: `Bearer ${token}` };
    const { method, url: path } = incoming;
    const passed = request({ port: app.port, host: '127.0.0.1', method, path, headers }, (response) => {
      answer.writeHead(response.statusCode!, response.headers);
      response.pipe(answer);
    });
    passed.on('error', () => answer.destroy());
    incoming.pipe(passed);
  });
  await new Promise<void>((resolve) => proxy.listen(port, '127.0.0.1', resolve));
});
afterAll(async () => {
  proxy.closeAllConnections();
  proxy.close();
  await app.stop();
});

/** The suite imports a function of Node 22, which only other commands of it call. */
const hooks = `export async function load(url, context, next) {
  const loaded = await next(url, context);
  const isSuite = url.includes('/conformance/dist/');
  return isSuite ? { ...loaded, source: String(loaded.source).replace(/globSync as [^,]+,/, '') } : loaded;
}`;
const asUrl = (source: string) => `data:text/javascript,${encodeURIComponent(source)}`;
const onNode20 = asUrl(`import { register } from 'node:module'; register(${JSON.stringify(asUrl(hooks))});`);

/** Checks of a scenario that did not pass. */
async function failedChecks(folder: string, scenario: string): Promise<string[]> {
  const run = (await readdir(folder)).find((name) => name.startsWith(`server-${scenario}-2`))!;
  const checks: { id: string; status: string }[] = JSON.parse(await readFile(join(folder, run, 'checks.json'), 'utf8'));
  return checks.filter(({ status }) => status === 'FAILURE').map(({ id }) => id);
}

test.each(['2025-06-18', '2025-11-25', '2026-07-28'])(
  'passes every scenario of %s that applies, and fails exactly those that do not',
  async (revision) => {
    const streams = revision === '2026-07-28' ? [] : withoutStreams;
    const failing = [...Object.values(inapplicable).flat(), ...streams];
    const folder = join(directory, revision);
    const baseline = join(directory, `${revision}.yaml`);
    await writeFile(baseline, `server:\n${failing.map((name) => `  - ${name}\n`).join('')}`);
    const scenarios = ['--suite', 'all', '--spec-version', revision, '--expected-failures', baseline];
    const args = ['--import', onNode20, suite, 'server', '--url', `${url}/mcp`, ...scenarios, '--output-dir', folder];
    const { code, output } = await new Promise<{ code: unknown; output: string }>((resolve) => {
      execFile(process.execPath, args, { cwd: directory }, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : error.code, output: stdout + stderr }),
      );
    });
    expect({ code, output: code === 0 ? '' : output }).toEqual({ code: 0, output: '' });
    const passed = {
      '2025-06-18': ['server-initialize', 'ping', 'tools-list'],
      '2025-11-25': ['server-initialize', 'ping', 'tools-list', 'dns-rebinding-protection'],
      '2026-07-28': ['tools-list', 'dns-rebinding-protection', 'http-header-validation'],
    };
    for (const name of passed[revision as keyof typeof passed]) expect(output).toMatch(new RegExp(`✓ ${name}`));
    if (revision !== '2026-07-28') return;
    expect(await failedChecks(folder, 'server-stateless')).toEqual([
      'sep-2575-server-rejects-undeclared-capability',
      'sep-2575-missing-capability-http-400',
      'sep-2575-http-server-no-independent-requests-on-stream',
      'sep-2575-server-no-log-without-loglevel',
    ]);
    expect(await failedChecks(folder, 'caching')).toEqual(
      ['prompts-list', 'resources-list', 'resources-templates-list'].map((name) => `sep-2549-${name}-caching-hints`),
    );
  },
);
