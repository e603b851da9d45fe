/** The server of a process for commands: the same operations as over the network, on a Unix socket, for the local administrator alone. */
import { processSocket } from '../../../base/files/command-socket.ts';
import { Client } from '../../../base/http/clients.ts';
import type { Exchange } from '../../../base/http/exchange.ts';
import { problem } from '../../../base/http/problem.ts';
import type { Route } from '../../../base/http/route.ts';
import { HttpServer, type ServerOptions } from '../../../base/http/server.ts';
import type { Log } from '../../../base/telemetry/log.ts';
import { operationRoutes } from '../../../manage/api/routes.ts';
import type { Api } from '../../../manage/api/serve.ts';
import { roles } from '../../../model/users.ts';
import type { Order } from '../../primary/order.ts';
import type { GiveOrder } from '../orders.ts';

/** Operations on what belongs to a signed-in user, which the local administrator is not. */
const ofAccounts = /^\/api\/v1\/(account|live|session)\b/;

/** The paths of orders to the primary: only commands on this machine may give them. */
function orderRoutes(give: GiveOrder): Route[] {
  const route = (method: Route['method'], path: string, orderOf: (exchange: Exchange) => Order): Route => ({
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
 * Listens on the socket of this process. A failure is logged only: webhooks are received without commands.
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
