/**
 * Machines for tests: network namespaces with an address each, on a switch in a namespace of its own that no other network reaches. The test
 * connects to their ports by doors, so that nothing of the machine's own network is changed. Needs root.
 */
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from './ports.ts';

const run = promisify(execFile);

export interface Machine {
  readonly name: string;
  /** On the switch. */
  readonly address: string;
  /** Words before a program and its arguments: it runs on this machine. */
  readonly within: readonly string[];
  /** Sets a kernel parameter of this machine's network, e.g. `net.ipv4.tcp_migrate_req`. */
  sysctl(name: string, value: string): Promise<void>;
  /** A port of 127.0.0.1 outside: each connection to it is one to this port inside, made by a program there. */
  door(port: number): Promise<number>;
  /** Drops all packets from and to these machines, without any answer, until `heal`. */
  cut(...others: Machine[]): Promise<void>;
  heal(): Promise<void>;
}

export interface Network {
  /** By the names given. */
  machine(name: string): Machine;
  /** Closes the doors and removes the namespaces. Programs that still run there lose their network. */
  close(): void;
}

/** Why this machine cannot have namespaces; the empty string when it can. */
export function lackingForNamespaces(...programs: string[]): string {
  if (process.getuid!() !== 0) return 'the right to create network namespaces (not root)';
  const lacking = ['ip', ...programs].filter((program) => spawnSync('which', [program]).status !== 0);
  if (lacking.length > 0) return `the programs ${lacking.join(', ')}`;
  const name = `weir-${process.pid}-try`;
  const wasMounted = isMounted();
  // In a chroot a namespace can be created, but not entered.
  const tries = [
    ['netns', 'add', name],
    ['-n', name, 'link', 'set', 'lo', 'up'],
    ['netns', 'exec', name, 'true'],
  ];
  const failed = tries.map((words) => spawnSync('ip', words, { encoding: 'utf8' })).find(({ status }) => status !== 0);
  removeNamespace(name, wasMounted);
  return failed === undefined ? '' : `the right to use network namespaces (${failed.stderr.trim()})`;
}

const NAMESPACES = '/run/netns';

/** The first namespace mounts the folder of all. */
function isMounted(): boolean {
  return readFileSync('/proc/self/mountinfo', 'utf8').includes(` ${NAMESPACES} `);
}

function removeNamespace(name: string, keepsMount: boolean): void {
  spawnSync('ip', ['netns', 'del', name]);
  if (!keepsMount && existsSync(NAMESPACES) && readdirSync(NAMESPACES).length === 0) spawnSync('umount', [NAMESPACES]);
}

/** Runs inside: makes a connection for each one to the socket at `path`. */
const doorway = `
const [path, port] = process.argv.slice(1);
const { connect, createServer } = require('node:net');
createServer((outside) => {
  const inside = connect(Number(port), '127.0.0.1');
  for (const [one, other] of [[inside, outside], [outside, inside]])
    one.on('error', () => other.destroy()).on('close', (failed) => failed || other.end()).pipe(other);
}).listen(path, () => console.log('open'));
`;

/** Networks of one process have different namespaces. */
let opened = 0;

/** Creates the machines, with addresses 10.77.0.1 and up in the order given. */
export async function openNetwork(...names: string[]): Promise<Network> {
  const prefix = `weir-${process.pid}-${opened++}`;
  const wasMounted = isMounted();
  const directory = mkdtempSync(join(tmpdir(), 'weir-n-'));
  const undo: (() => void)[] = [() => rmSync(directory, { recursive: true, force: true })];
  const close = () => {
    for (const step of undo.splice(0).reverse()) step();
    process.off('exit', close);
  };
  process.once('exit', close);
  const addNamespace = async (name: string) => {
    await run('ip', ['netns', 'add', name]);
    undo.push(() => removeNamespace(name, wasMounted));
    await run('ip', ['-n', name, 'link', 'set', 'lo', 'up']);
  };
  try {
    const hub = `${prefix}-switch`;
    await addNamespace(hub);
    await ip(hub, 'link add switch type bridge');
    await ip(hub, 'link set switch up');
    const machines = new Map<string, Machine>();
    for (const [i, name] of names.entries()) {
      const namespace = `${prefix}-${name}`;
      const address = `10.77.0.${i + 1}`;
      await addNamespace(namespace);
      await ip(hub, `link add port${i} type veth peer name eth0 netns ${namespace}`);
      await ip(hub, `link set port${i} master switch up`);
      await ip(namespace, `addr add ${address}/24 dev eth0`);
      await ip(namespace, 'link set eth0 up');
      machines.set(name, new NamespacedMachine(name, namespace, address, directory, undo));
    }
    return { machine: (name) => machines.get(name)!, close };
  } catch (error) {
    close();
    throw error;
  }
}

async function ip(namespace: string, words: string): Promise<void> {
  await run('ip', ['-n', namespace, ...words.split(' ')]);
}

class NamespacedMachine implements Machine {
  readonly name: string;
  readonly address: string;
  readonly within: readonly string[];
  readonly #directory: string;
  readonly #undo: (() => void)[];

  constructor(name: string, namespace: string, address: string, directory: string, undo: (() => void)[]) {
    this.name = name;
    this.address = address;
    this.within = ['ip', 'netns', 'exec', namespace];
    this.#directory = directory;
    this.#undo = undo;
  }

  async sysctl(name: string, value: string): Promise<void> {
    const path = `/proc/sys/${name.replaceAll('.', '/')}`;
    await this.#run('sh', '-c', `echo ${value} > ${path}`);
  }

  async door(port: number): Promise<number> {
    const path = join(this.#directory, `${this.name}-${port}`);
    const [program, ...words] = this.within;
    const child = spawn(program!, [...words, process.execPath, '-e', doorway, path, String(port)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#undo.push(() => void child.kill('SIGKILL'));
    await said(child);
    const outside = await freePort();
    const sockets = new Set<Socket>();
    const server = createServer((client) => {
      const socket = connect(path);
      sockets.add(client);
      client.once('close', () => sockets.delete(client));
      passOn(client, socket);
      passOn(socket, client);
    });
    await new Promise<void>((resolve) => server.listen(outside, '127.0.0.1', resolve));
    this.#undo.push(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    return outside;
  }

  async cut(...others: Machine[]): Promise<void> {
    const addresses = others.map(({ address }) => address).join(', ');
    const rules = ['add table ip cut'];
    for (const [hook, side] of [
      ['input', 'saddr'],
      ['output', 'daddr'],
    ])
      rules.push(
        `add chain ip cut ${hook} { type filter hook ${hook} priority 0; }`,
        `add rule ip cut ${hook} ip ${side} { ${addresses} } drop`,
      );
    await this.#run('nft', rules.join('; '));
  }

  async heal(): Promise<void> {
    await this.#run('nft', 'delete table ip cut');
  }

  async #run(...words: string[]): Promise<void> {
    await run(this.within[0]!, [...this.within.slice(1), ...words]);
  }
}

/** Passes bytes and the end of one socket to the other. */
function passOn(one: Socket, other: Socket): void {
  one
    .on('error', () => other.destroy())
    .on('close', (failed) => failed || other.end())
    .pipe(other);
}

/** Resolves with the first output. */
function said(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    child.stdout!.once('data', () => resolve());
    child.once('exit', (code) => reject(new Error(`the door ended with ${code}`)));
  });
}
