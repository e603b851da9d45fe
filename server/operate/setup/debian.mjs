/** Where Debian's packages put what no PATH names: for the set-up and the tests. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const POSTGRES = '/usr/lib/postgresql';
const ETCD_CLIENT = '/usr/lib/python3/dist-packages/etcd';

/** The folder of the newest server of Postgres; undefined without one. Beside it are versions with the client's programs alone. */
export function postgresServerFolder() {
  const versions = existsSync(POSTGRES) ? readdirSync(POSTGRES).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = versions.map((version) => join(POSTGRES, version, 'bin'));
  return folders.find((folder) => existsSync(join(folder, 'postgres')));
}

/** Whether Patroni's client of etcd is installed. On Debian 13, Patroni alone comes with that of Consul. */
export function hasEtcdClient() {
  return existsSync(ETCD_CLIENT);
}
