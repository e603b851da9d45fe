/** The conformance suite of the Model Context Protocol for servers. It sends no bearer token, so a proxy adds one. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
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
    'json-schema-2020-12',
  ],
  'a stateless server asks clients nothing': [
    'tools-call-sampling',
    'tools-call-elicitation',
    'elicitation-sep1034-defaults',
    'elicitation-sep1330-enums',
  ],
  'the server opens no streams': ['tools-call-with-progress', 'server-sse-polling', 'server-sse-multiple-streams'],
  'the server has no resources': [
    'resources-list',
    'resources-read-text',
    'resources-read-binary',
    'resources-templates-read',
    'resources-subscribe',
    'resources-unsubscribe',
  ],
  'the server has no prompts': [
    'prompts-list',
    'prompts-get-simple',
    'prompts-get-with-args',
    'prompts-get-embedded-resource',
    'prompts-get-with-image',
  ],
};

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

test('passes every scenario that applies, and fails exactly those that do not', async () => {
  const failing = Object.values(inapplicable).flat();
  const baseline = join(directory, 'baseline.yaml');
  await writeFile(baseline, `server:\n${failing.map((name) => `  - ${name}\n`).join('')}`);
  const args = [suite, 'server', '--url', `${url}/mcp`, '--suite', 'all', '--expected-failures', baseline];
  const { code, output } = await new Promise<{ code: unknown; output: string }>((resolve) => {
    execFile(process.execPath, [...args, '--output-dir', directory], { cwd: directory }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : error.code, output: stdout + stderr }),
    );
  });
  for (const name of ['server-initialize', 'ping', 'tools-list', 'dns-rebinding-protection'])
    expect(output).toMatch(new RegExp(`✓ ${name}`));
  expect({ code, output: code === 0 ? '' : output }).toEqual({ code: 0, output: '' });
});
