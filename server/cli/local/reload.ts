/** `weir reload` and `weir processes [N]`: orders to the primary of the Weir in DATA_DIR, over its socket. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import { CommandError, type CommandIo, itemsTable, printJson, printText } from '../../base/command/io.ts';
import { buildName } from '../../base/files/build.ts';
import { counted } from '../../model/words.ts';
import type { Control, Refused, RestartReport } from '../../operate/primary/messages.ts';
import { wholeNumber } from '../command/arguments.ts';
import { openSocket } from '../manage/socket.ts';

const LOOK_EVERY_MS = 200;
/** How long `weir processes N` waits until N processes serve. */
const SERVE_WITHIN_MS = 60_000;

/** `weir reload`. Exit code 1 when a process was not replaced. */
export function define(command: Command, io: CommandIo): void {
  command.option('--json', 'print one JSON document').action(async ({ json }: { json?: boolean }) => {
    const give = orders(io);
    const { requested = 0 } = await give('POST', 'reload');
    const control = await until(give, ({ restart }) => {
      // A requested restart runs at once, or after the restart in progress.
      if (restart === null || (restart.number < requested && restart.state !== 'running'))
        throw new CommandError(
          'Weir was restarted before it had replaced its processes: it has the settings of that start',
        );
      return restart.number >= requested && restart.state !== 'running';
    });
    const restart = control.restart!;
    const isDone = restart.state === 'restarted';
    if (json) printJson(io, control);
    else if (isDone) printText(io, describeRestart(restart, control));
    if (!isDone) throw new CommandError(json ? '' : describeFailure(restart, control));
  });
}

/** `weir processes [N]`. Exit code 1 when fewer than N processes serve after SERVE_WITHIN_MS. */
export function defineProcesses(command: Command, io: CommandIo): void {
  command
    .argument(
      '[number]',
      'set the number of serving processes, until WORKERS changes or Weir is restarted',
      wholeNumber(1024),
    )
    .option('--json', 'print one JSON document')
    .action(async (wanted: number | null = null, { json }: { json?: boolean }) => {
      const give = orders(io);
      if (wanted !== null) await give('POST', `processes/${wanted}`);
      const untilMs = performance.now() + SERVE_WITHIN_MS;
      const control = await until(give, (now) => {
        return wanted === null || servingOf(now) === now.wanted || performance.now() > untilMs;
      });
      if (json) printJson(io, control);
      const buildOf = ({ build }: Control['processes'][number]) => build && buildName(build);
      const cells = ['pid', 'state', buildOf, 'started_at'] as const;
      const shown = itemsTable(['PROCESS', 'STATE', 'BUILD', 'STARTED'], cells, control.processes);
      if (!json) printText(io, `${shown}${describePrimary(control)}`);
      if (wanted !== null && servingOf(control) !== control.wanted)
        throw new CommandError(`${servingOf(control)} of ${control.wanted} processes serve; the log says why`);
    });
}

type Give = (method: 'GET' | 'POST', path?: string) => Promise<Control>;

/** Orders reject with CommandError when the primary refuses them, or when nothing serves. */
function orders(io: CommandIo): Give {
  const { client } = openSocket(io);
  const { signal } = new AbortController();
  return async (method, path = '') => {
    const call = { method, path: `primary${path && `/${path}`}`, token: '', timeoutMs: 0, signal };
    const answer = await client.send(call);
    if (answer.kind === 'failed') throw new CommandError(`${client.base} did not answer: ${answer.name}.`);
    const document = answer.document as Control | Refused;
    if (answer.status !== 200)
      throw new CommandError('the Weir that serves is of a release without this command: restart it');
    if ('refused' in document) throw new CommandError(document.refused);
    return document;
  };
}

/** Asks for the state until it is as wanted; returns it. */
async function until(give: Give, isThere: (control: Control) => boolean): Promise<Control> {
  for (;;) {
    const control = await give('GET');
    if (isThere(control)) return control;
    await delay(LOOK_EVERY_MS);
  }
}

const servingOf = ({ processes }: Control) => processes.filter(({ state }) => state === 'serving').length;

const processesText = (count: number) => counted(count, 'process', 'processes');

function describeRestart({ replaced, changed, changeable }: RestartReport, control: Control): string {
  const settings =
    changed.length > 0
      ? `Changed settings: ${changed.join(', ')}.`
      : changeable
        ? 'No setting has changed.'
        : 'No setting could change: none is in .env, and the environment of a process is fixed at its start. ' +
          'A container gets other settings when it is created again, in Compose by: docker compose up --detach';
  return `${processesText(replaced)} replaced.\n${settings}\n${describePrimary(control)}`;
}

/** What runs: one build, or two during and after an upgrade. */
function describePrimary({ primary, processes }: Control): string {
  const own = buildName(primary);
  const builds = new Set(
    processes.flatMap(({ state, build }) => (state === 'serving' && build ? buildName(build) : [])),
  );
  if (builds.size === 0) return `No process serves, and the log says why. The primary runs ${own}.\n`;
  if (builds.size === 1 && builds.has(own)) return `All run ${own}.\n`;
  return `The processes run ${[...builds].join(', ')}, and the primary ${own} until Weir is restarted.\n`;
}

function describeFailure({ reason = '', changed, fixed, replaced }: RestartReport, control: Control): string {
  const others = fixed.length === 0 ? [] : changed.filter((name) => !fixed.includes(name));
  const also = others.length === 0 ? '' : `; also changed: ${others.join(', ')}`;
  const kept = servingOf(control) - replaced;
  return `${reason}${also}; ${replaced === 0 ? `nothing is replaced, and ${processesText(kept)} ${kept === 1 ? 'continues' : 'continue'} to serve` : `${processesText(replaced)} replaced, ${processesText(kept)} not`}`;
}
