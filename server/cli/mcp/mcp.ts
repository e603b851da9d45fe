/** `weir mcp`: lets an MCP client that starts its servers as commands reach POST /mcp of a Weir. */
import type { Command } from 'commander';
import { CommandError, type CommandIo, printLine } from '../../base/command/io.ts';
import { openCredentialFile } from '../../deliver/client/credential.ts';
import { WeirError } from '../../deliver/client/http.ts';
import { parseAddress } from '../command/arguments.ts';
import { Bridge } from './bridge.ts';

interface McpOptions {
  url: string;
  credentialFile: string;
}

/**
 * Builds the command. Standard output carries JSON-RPC messages only. Ends with exit code 0 when standard input ends; with 1 when the
 * credential file cannot be used. An unreachable Weir is reported to the client as the error of each call.
 */
export function defineMcp(command: Command, io: CommandIo): void {
  command
    .requiredOption('--url <url>', 'base URL of the API, e.g. http://127.0.0.1:8080')
    .requiredOption('--credential-file <file>', 'file with the credential of an agent, or the API token of a user')
    .action((options: McpOptions) => serve(options, io));
}

async function serve({ url: address, credentialFile }: McpOptions, io: CommandIo): Promise<void> {
  const url = parseAddress(address);
  const { read, advice } = await openCredentialFile(credentialFile, io.directory, ['wa', 'wu']).catch((error) => {
    throw error instanceof WeirError ? new CommandError(error.message) : error;
  });
  if (advice !== null) printLine(io, advice);
  // Takes about 100 ms to load, which the other commands need not spend.
  const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
  const transport = new StdioServerTransport(io.stdin as NodeJS.ReadStream, io.stdout as NodeJS.WriteStream);
  const bridge = new Bridge(url, read, transport, (message) => printLine(io, `weir mcp: ${message}`));
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  for (const event of ['end', 'close', 'error']) io.stdin.once(event, end);
  io.stdout.once('error', end);
  for (const signal of SIGNALS) process.once(signal, end);
  await transport.start();
  await ended;
  for (const signal of SIGNALS) process.off(signal, end);
  await bridge.close();
}

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
