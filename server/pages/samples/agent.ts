/** Code on the page of an agent. */
import type { ClientPackage } from '../../base/http/client-package.ts';
import { consumeSamples } from './consume.ts';
import type { Sample } from './render.ts';

/** Connects an AI agent. Several clients replace the variable by its value in their environment. */
function mcpConfiguration(api: string): string {
  const headers = { Authorization: `Bearer \${WEIR_CREDENTIAL}` };
  return JSON.stringify({ mcpServers: { weir: { type: 'http', url: `${api}/mcp`, headers } } }, null, 2);
}

/** Code that fetches events, for its page; the command of Weir is the shortest. */
export function samplesOf(api: string, { command, install }: ClientPackage): Sample[] {
  return [
    {
      language: 'Weir',
      code: `${command} \\
  consume ${api} \\
  --credential-file FILE`,
    },
    ...consumeSamples(api, install),
    { language: 'AI agent (MCP)', code: mcpConfiguration(api) },
  ];
}
