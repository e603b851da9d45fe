/** The consent of OAuth in a browser, which applies the policy of the page to the redirect of its form. */
import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import { addAgent } from '../helpers/agents.ts';
import { accessibilityViolations, openTab } from '../helpers/browser.ts';
import { OAuthClient, startOAuthApp } from '../helpers/oauth.ts';
import { addPerson, PASSWORD } from '../helpers/people.ts';
import { listening } from '../helpers/ports.ts';
import { ofTest, shared } from '../helpers/shared.ts';

const app = shared(startOAuthApp);

/** A site at which the client listens. */
const site = createServer((_, response) => response.setHeader('content-type', 'text/html').end('done'));

test.each([true, false])(
  'a person lets a client in as an agent, and the browser continues to it (scripts: %s)',
  async (javaScriptEnabled) => {
    const [operator, agent] = [await addPerson(app, 'operator', PASSWORD), await addAgent(app)];
    const client = await OAuthClient.register(app, `http://localhost:${await listening(site)}/callback`, 'Claude');
    const { page, complaints } = await ofTest(openTab(app, operator, { javaScriptEnabled }));
    await page.goto(`/oauth/authorize?${client.query()}`);
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Connect Claude');
    if (javaScriptEnabled) expect(await accessibilityViolations(page)).toEqual([]);
    await page.getByLabel('Agent', { exact: true }).selectOption(agent.id);
    await page.getByLabel('Your password').fill('wrong');
    await page.getByRole('button', { name: 'Allow access' }).click();
    await page.getByText('This is not your password.').waitFor();
    await page.getByLabel('Your password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Allow access' }).click();
    await page.waitForURL(`${client.redirect}?**`);
    const code = new URL(page.url()).searchParams.get('code')!;
    expect((await client.exchange(code)).status).toBe(200);
    await page.goto(`${app.url}/agents/${agent.id}`);
    await page.getByRole('link', { name: 'Claude' }).waitFor();
    if (javaScriptEnabled) expect(await accessibilityViolations(page)).toEqual([]);
    // The status of a refused form is an error to the console.
    expect(complaints.filter((text) => !text.includes('403'))).toEqual([]);
  },
);
