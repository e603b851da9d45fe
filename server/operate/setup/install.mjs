/** The steps that change this machine: Debian packages, the system user, node_modules. */
import { copyFileSync, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { installStampPath, nodeHeadersFolder } from './facts.mjs';
import { installCommand } from './plan.mjs';
import { Refusal, run } from './run.mjs';
import { serverBinaryProblem } from './server-binary.mjs';

const linesShown = 60;

/**
 * Run by root. Debian starts a service as soon as its package is installed, unless policy-rc.d forbids it. The script creates a
 * policy-rc.d during the installation if none exists, and disables the service for later boots.
 */
const installScript = `
policy=/usr/sbin/policy-rc.d
if (set -C; printf '#!/bin/sh\\nexit 101\\n' >"$policy") 2>/dev/null; then
  trap 'rm -f "$policy"' EXIT
  trap 'exit 1' HUP INT TERM
  chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -o DPkg::Lock::Timeout=120 update -qq || echo 'The package lists could not be updated; continuing with the old ones.'
apt-get -o DPkg::Lock::Timeout=120 install -y -qq --no-install-recommends "$@" || exit 1
for package; do
  for script in $(dpkg -L "$package" | sed -n 's|^/etc/init.d/||p'); do update-rc.d "$script" disable; done
done
`;

/**
 * Installs Debian packages as root or with sudo. Failure throws a Refusal with the end of apt's output and the command to run by hand; with
 * `optional` it is only printed.
 */
export async function installPackages({ packages, sudo, optional }) {
  console.log(`Installing Debian packages${sudo ? ' (by sudo)' : ''}: ${packages.join(' ')} ...`);
  const shell = ['sh', '-c', installScript, 'install', ...packages];
  const { code, output } = sudo
    ? await run('sudo', ['-n', ...shell], { quiet: true })
    : await run(shell[0], shell.slice(1), { quiet: true });
  if (code === 0) return;
  const text = `${tail(output)}\nThe packages could not be installed. Fix the error of apt above, or run:\n  ${installCommand(packages)}`;
  if (!optional) throw new Refusal(text);
  console.log(`${text}\nThe tests that need them are skipped.`);
}

/** The embedded Postgres and the serving processes run as this user when Weir is started by root. */
export async function addSystemUser() {
  console.log('Adding the system user weir: neither the embedded Postgres nor the serving processes run as root ...');
  const command = ['useradd', '--system', '--no-create-home', '--shell', '/usr/sbin/nologin', 'weir'];
  const { code, output } = await run(command[0], command.slice(1), { quiet: true });
  if (code !== 0)
    throw new Refusal(`${tail(output)}\nThe user could not be added. Add it manually: ${command.join(' ')}`);
}

/**
 * Installs node_modules exactly as in package-lock.json, and writes the stamp that the next setup reads. Installs beside and then swaps: until
 * all is well, a Weir that runs from here keeps its packages.
 */
export async function installModules(root, { wanted }) {
  console.log('Installing npm packages and compiling the Postgres client (about a minute) ...');
  // On the file system of the root, so that a rename moves it.
  const beside = join(root, 'dist', '.install');
  rmSync(beside, { recursive: true, force: true });
  try {
    mkdirSync(beside, { recursive: true });
    for (const name of ['package.json', 'package-lock.json', '.npmrc'])
      if (existsSync(join(root, name))) copyFileSync(join(root, name), join(beside, name));
    await installInto(beside);
    writeFileSync(installStampPath(beside), wanted);
    const current = join(root, 'node_modules');
    if (existsSync(current)) renameSync(current, join(beside, 'replaced'));
    renameSync(join(beside, 'node_modules'), current);
  } finally {
    rmSync(beside, { recursive: true, force: true });
  }
}

async function installInto(folder) {
  // The compiler is a development dependency, which NODE_ENV=production would omit.
  const args = ['ci', '--include=dev', '--no-fund', '--no-audit'];
  const { code, output } = await run('npm', args, { cwd: folder, env: await withHeaders(process.env), quiet: true });
  if (code !== 0)
    throw new Refusal(
      `${tail(output)}\nnpm ci failed. Fix the error above (usually the network, or a package-lock.json that does not match package.json), then run: npm run setup`,
    );
  if (!existsSync(join(folder, 'node_modules', 'libpq', 'build', 'Release', 'addon.node')))
    throw new Refusal(
      `${tail(output)}\nnpm ci did not compile the Postgres client: npm is configured to skip install scripts. Run: npm config delete ignore-scripts; npm run setup`,
    );
  const problem = serverBinaryProblem(folder);
  if (problem !== null) throw new Refusal(problem);
}

/** With the headers of this Node, if they are here. npm 11 warns about the variable that earlier ones need. */
async function withHeaders(env) {
  const headers = nodeHeadersFolder();
  if (headers === null) return env;
  const { output } = await run('npm', ['--version'], { quiet: true });
  const variable = Number.parseInt(output, 10) >= 11 ? 'npm_package_config_node_gyp_nodedir' : 'npm_config_nodedir';
  return { [variable]: headers, ...env };
}

function tail(output) {
  return output.trimEnd().split('\n').slice(-linesShown).join('\n');
}
