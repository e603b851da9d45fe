/** The IPC side of a serving process: receives messages of the primary and carries them out with an App. */
import { build } from '../../base/files/build.ts';
import { parseSettings } from '../../base/settings/read.ts';
import { createLog, openDestination } from '../../base/telemetry/log.ts';
import { Throttle } from '../../base/telemetry/throttle.ts';
import { within } from '../../base/time/every.ts';
import type { Checkup } from '../../manage/api/status/doctor.ts';
import {
  type Control,
  type FromProcess,
  type GiveOrder,
  PROTOCOL,
  type Refused,
  type SentOrder,
  type ToProcess,
} from '../primary/messages.ts';
import { type App, startApp } from './app.ts';

const SHORTAGES_EVERY_MS = 1_000;
/** Longest wait for the primary with an order: it may wait for a query. */
const ORDER_TIMEOUT_MS = 15_000;
/** Number of an answer to no question. */
const UNASKED = -1;

function isDescriptorShortage({ code }: NodeJS.ErrnoException): boolean {
  return code === 'EMFILE' || code === 'ENFILE';
}

/** Never returns. The process ends after a drain message, when the primary is gone, or on a bug. */
export function runProcess(): void {
  const destination = openDestination(1);
  let app: App | null = null;
  let log = createLog(destination, 'info', { place: 'process' });
  /** The last message of each kind that arrived before the App existed. */
  const missed = new Map<ToProcess['kind'], ToProcess>();

  const send = (message: FromProcess) => {
    if (process.connected) process.send?.(message);
  };
  /** Resolves when the message is in the pipe, from which the primary reads it before it sees the end of the process. */
  const sendLast = (message: FromProcess) =>
    new Promise<void>((resolve) => {
      if (process.connected) process.send?.(message, undefined, undefined, () => resolve());
      else resolve();
    });
  let askers: ((checkup: Checkup) => void)[] = [];
  const askDoctor = () =>
    new Promise<Checkup>((resolve) => {
      askers.push(resolve);
      send({ kind: 'ask_doctor' });
    });
  let tickets = 0;
  const orders = new Map<number, (answer: Control | Refused) => void>();
  const giveOrder: GiveOrder = async (order) => {
    const ticket = tickets++;
    const answer = new Promise<Control | Refused>((resolve) => orders.set(ticket, resolve));
    send({ kind: 'order', ticket, order });
    const given = await within(ORDER_TIMEOUT_MS, answer);
    orders.delete(ticket);
    return given ?? { refused: 'the primary does not answer; restart Weir' };
  };
  const end = (code: number): never => {
    destination.flush();
    process.exit(code);
  };

  // Ctrl-C and service managers signal the whole process group. Only the primary acts on signals; it sends messages over IPC.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGTTIN', 'SIGTTOU'] as const) process.on(signal, () => {});
  process.on('disconnect', () => end(0));
  const shortages = new Throttle<Error>(SHORTAGES_EVERY_MS, (err, leftOut) =>
    log('descriptors_short', { err, left_out: leftOut }),
  );
  process.on('uncaughtException', (error) => {
    // Clients may cause it, and a process that ends loses their other requests. What failed is tried again by its timer.
    if (isDescriptorShortage(error)) return shortages.add(error);
    log('crash', { err: error });
    end(1);
  });

  async function start({ given, ...order }: SentOrder): Promise<void> {
    try {
      const settings = parseSettings(given);
      log = createLog(destination, settings.LOG_LEVEL, { place: 'process' });
      app = await startApp({ ...order, settings }, log, undefined, askDoctor, giveOrder);
      for (const message of missed.values()) await onMessage(message);
      send({ kind: 'listening' });
    } catch (error) {
      send({ kind: 'refused', message: (error as Error).message });
      end(1);
    }
  }

  /** Keeps messages that arrive before the App exists and must take effect later. */
  function miss(message: ToProcess): void {
    if (message.kind === 'drain') end(0);
    // State read at the start may be older than the change.
    if (message.kind === 'change') missed.set('changes_lost', { kind: 'changes_lost' });
    if (['changes_lost', 'horizon', 'awaited', 'database_prepared'].includes(message.kind))
      missed.set(message.kind, message);
  }

  async function onMessage(message: ToProcess): Promise<void> {
    if (message.kind === 'start') return start(message.order);
    if (app === null) return miss(message);
    switch (message.kind) {
      case 'heartbeat':
        return app.recordHeartbeat();
      case 'changes_lost':
        return app.changesLost();
      case 'arrived':
        return app.arrived(message.by);
      case 'change':
        // The reload may fail while the database is down. Webhooks and agents are already dropped; the cells are read again each second.
        await app.change(message.payload).catch(() => {});
        return send({ kind: 'applied', number: message.number });
      case 'horizon':
        return app.setHorizon(message.horizon);
      case 'awaited':
        return app.awaits(message.awaited);
      case 'database_prepared':
        await app.useDatabase();
        return send({ kind: 'applied', number: message.number });
      case 'collect_metrics':
        return send({ kind: 'metrics', number: message.number, snapshot: app.metrics() });
      case 'take_sample':
        return send({ kind: 'sample', number: message.number, sample: app.sample() });
      case 'live':
        return app.live(message.live);
      case 'checkup':
        for (const resolve of askers) resolve(message.checkup);
        askers = [];
        return;
      case 'ordered':
        return orders.get(message.ticket)?.(message.answer);
      case 'leaving':
        return app.leave();
      case 'drain':
        await app.drain();
        // What was answered since the primary asked counts too.
        await Promise.all([
          sendLast({ kind: 'metrics', number: UNASKED, snapshot: app.metrics() }),
          sendLast({ kind: 'sample', number: UNASKED, sample: app.sample() }),
        ]);
        return end(0);
    }
  }

  process.on('message', (message: ToProcess) => void onMessage(message));
  send({ kind: 'awaiting_order', protocol: PROTOCOL, build: build() });
}
