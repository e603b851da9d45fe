/** Maps each row of the tables in manage/api/routes.ts to its handler: those of the network, and those of commands on a Unix socket. */
import { processSocket } from '../../base/files/data-dir.ts';
import { Client } from '../../base/http/clients.ts';
import { type Cors, isApiPath } from '../../base/http/cors.ts';
import type { Exchange } from '../../base/http/exchange.ts';
import { problem } from '../../base/http/problem.ts';
import type { Route, RouteHandler } from '../../base/http/route.ts';
import { HttpServer, type ServerOptions } from '../../base/http/server.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { oauthPageRoutes, oauthRoutes, operationRoutes, pageRoutes, plainRoutes } from '../../manage/api/routes.ts';
import type { Api } from '../../manage/api/serve.ts';
import type { AnonymousLimit } from '../../manage/auth/anonymous.ts';
import type { Person } from '../../manage/auth/person.ts';
import type { OAuth } from '../../manage/oauth/oauth.ts';
import { roles } from '../../model/users.ts';
import type { Page } from '../../pages/page.ts';
import type { Pages } from '../../pages/serve/serve.ts';
import type { GiveOrder, PrimaryOrder } from '../primary/messages.ts';

type Handlers = Record<(typeof plainRoutes)[number][2], RouteHandler>;

interface PeopleHandlers {
  api: Api;
  pages: Pages;
  pageTable: PageTable;
  cors: Cors;
  anonymous: AnonymousLimit;
  /** Path of the client package: a release and a hash. */
  clientPath: string;
  /** Null: OAUTH_ENABLED is false. */
  oauth: OAuth | null;
}

type PageRow = (typeof pageRoutes)[number] | (typeof oauthPageRoutes)[number];
/** One page for each row of pageRoutes and oauthPageRoutes. */
export type PageTable = {
  [Row in PageRow as Row[2]]: Page<Row[3] extends 'anyone' ? Person | null : Person>;
};

/** Builds the route table with handlers; API paths also answer preflights. */
export function routeTable(
  handlers: Handlers,
  { api, pages, pageTable, cors, anonymous, clientPath, oauth }: PeopleHandlers,
): Route[] {
  const plain = plainRoutes.map(
    ([method, path, name]): Route => ({
      method,
      path: name === 'clientPackage' ? clientPath : path,
      handle: handlers[name],
      ...(name === 'handshake' && { allows: ['HEAD'] }),
      ...(name === 'handshakeOptions' && { allows: [] }),
    }),
  );
  const authorizing = oauth?.handlers();
  if (authorizing !== undefined)
    plain.push(...oauthRoutes.map(([method, path, name]): Route => ({ method, path, handle: authorizing[name] })));
  const managed = operationRoutes.map(
    ([method, path, name, access]): Route => ({
      method,
      path,
      handle: api.handler(name, access),
    }),
  );
  const shown = [...pageRoutes, ...(oauth === null ? [] : oauthPageRoutes)].map(
    ([method, path, name, access]): Route => ({
      method,
      path,
      handle:
        access === 'anyone'
          ? pages.forAnyone(pageTable[name] as Page<Person | null>)
          : pages.forUsers(access, pageTable[name] as Page),
    }),
  );
  return [...plain, ...managed, ...preflights([...plain, ...managed], cors, anonymous), ...shown];
}

/**
 * OPTIONS of what programs call. Known paths have their own rows, so that Allow names OPTIONS. A preflight has no credentials, so that of an
 * allowed origin is not counted: it must not keep users behind an address over its limit from their pages.
 */
function preflights(routes: readonly Route[], cors: Cors, anonymous: AnonymousLimit): Route[] {
  const paths = new Set(routes.map(({ path }) => path).filter(isApiPath));
  return [...paths, '/api/*'].map((path) => ({
    method: 'OPTIONS',
    path,
    handle: async (exchange) => {
      const over = cors.isAllowed(exchange) ? null : await anonymous.over(exchange);
      if (over === null) cors.preflight(exchange);
      else exchange.problem(over);
    },
  }));
}

/** Operations on what belongs to a signed-in user, which the local administrator is not. */
const ofAccounts = /^\/api\/v1\/(account|live|session)\b/;

/** The paths of orders to the primary: only commands on this machine may give them. */
function orderRoutes(give: GiveOrder): Route[] {
  const route = (method: Route['method'], path: string, orderOf: (exchange: Exchange) => PrimaryOrder): Route => ({
    method,
    path,
    handle: async (exchange) => exchange.json(200, await give(orderOf(exchange))),
  });
  return [
    route('GET', '/primary', () => 'show'),
    route('POST', '/primary/reload', () => 'reload'),
    route('POST', '/primary/processes/:number', ({ parameters }) => Number.parseInt(parameters[0]!, 10)),
  ];
}

function routesFor(api: Api): Route[] {
  const served = new Set<string>([...roles, 'viewer or agent']);
  return operationRoutes.flatMap(([method, path, name, access]) =>
    served.has(access) && !ofAccounts.test(path) ? [{ method, path, handle: api.handler(name, access) }] : [],
  );
}

/** Each connection is of the local administrator. No field names another client: `::1` only fills the place of an address in the log. */
function localClients(): ServerOptions['clients'] {
  const client = new Client('::1', '::1', { requests: 0, gatheringBytes: 0, sentBytes: 0 }, false);
  return { connected: () => client, of: () => client };
}

/**
 * Listens on the socket of this process, for the local administrator alone. A failure is logged only: webhooks are received without
 * commands.
 * @param folder as the primary created it; undefined: this Weir serves no commands
 */
export async function serveCommands(
  folder: string | undefined,
  api: Api,
  order: GiveOrder,
  options: Omit<ServerOptions, 'clients' | 'prepare' | 'refuse'>,
  log: Log,
): Promise<HttpServer> {
  const server = new HttpServer([...routesFor(api), ...orderRoutes(order)], {
    ...options,
    clients: localClients(),
    prepare: () => {},
    refuse: (exchange, code) => exchange.problem(problem(code)),
  });
  if (folder !== undefined)
    await server.listenUnix(processSocket(folder, process.pid)).catch((error: Error) => {
      log('commands_unavailable', { reason: error.message });
    });
  return server;
}
