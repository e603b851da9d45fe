/** A real browser for tests: Debian's headless Chromium, driven by playwright-core. Its shell takes half the CPU time of the whole browser. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { type Overrides, startTestApp, type TestApp } from './app.ts';
import type { TestPerson } from './people.ts';
import { freePort } from './ports.ts';
import { PATIENCE_MS } from './wait.ts';

/** An app whose PUBLIC_URL is its listen address, because browsers check it. Its end closes all tabs. */
export async function startPagesApp(overrides: Overrides = {}): Promise<TestApp> {
  const port = await freePort();
  const app = await startTestApp({ PORT: port, PUBLIC_URL: `http://127.0.0.1:${port}`, ...overrides });
  const stop = async () => {
    await closeTabs();
    await app.stop();
  };
  return { ...app, stop };
}

let started: Promise<Browser> | undefined;

/** The installed browser, started once per process for all files. */
async function startBrowser(): Promise<Browser> {
  if (!(await started)?.isConnected()) started = launch();
  return started!;
}

/** Closes all tabs. */
export async function closeTabs(): Promise<void> {
  const contexts = (await started)?.contexts() ?? [];
  await Promise.all(contexts.map((context) => context.close()));
}

function launch(): Promise<Browser> {
  const executablePath = execFileSync('which', ['chromium-headless-shell'], { encoding: 'utf8' }).trim();
  // Chromium's own sandbox does not work for root. The handlers would end this process at a SIGINT that a test of a command emits.
  return chromium.launch({
    executablePath,
    args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
    handleSIGHUP: false,
    handleSIGINT: false,
    handleSIGTERM: false,
  });
}

export interface Tab {
  page: Page;
  context: BrowserContext;
  /** Errors of the browser: scripts, Content-Security-Policy, failed loads. */
  complaints: string[];
  close(): Promise<void>;
}

/** A new tab, signed in if a person is given. */
export async function openTab(
  app: Pick<TestApp, 'url'>,
  person: TestPerson | null,
  options: { javaScriptEnabled?: boolean; width?: number; dark?: boolean; timezoneId?: string } = {},
): Promise<Tab> {
  const context = await (await startBrowser()).newContext({
    baseURL: app.url,
    javaScriptEnabled: options.javaScriptEnabled ?? true,
    viewport: { width: options.width ?? 1280, height: 900 },
    colorScheme: options.dark ? 'dark' : 'light',
    timezoneId: options.timezoneId ?? 'Europe/Berlin',
  });
  if (person !== null) {
    const [name, value] = person.cookie.split('=') as [string, string];
    await context.addCookies([{ name, value, url: app.url }]);
  }
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  return { page, context, complaints, close: () => context.close() };
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Violations of WCAG 2.2 A and AA that axe-core finds on the current page, one line each. */
export async function accessibilityViolations(page: Page): Promise<string[]> {
  // Through the debugger, which the page's Content-Security-Policy does not restrict.
  await page.evaluate(axeSource);
  return page.evaluate(async () => {
    // @ts-expect-error axe was injected above
    const { violations } = await globalThis.axe.run(document, {
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
    });
    return violations.map(
      (found: { id: string; nodes: { html: string }[] }) =>
        `${found.id}: ${found.nodes.map(({ html }) => html).join(' | ')}`,
    );
  });
}
