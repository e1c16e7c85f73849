// Parts of ssh2 by themselves. Its index.js also brings its server and key generator, which the bundle has no use for.
declare module 'ssh2/lib/client.js' {
  import { Client } from 'ssh2';
  export default Client;
}

declare module 'ssh2/lib/protocol/constants.js' {
  interface Constants {
    readonly DEFAULT_KEX: readonly string[];
    readonly SUPPORTED_KEX: readonly string[];
    readonly DEFAULT_CIPHER: readonly string[];
    readonly SUPPORTED_CIPHER: readonly string[];
    readonly DEFAULT_MAC: readonly string[];
    readonly SUPPORTED_MAC: readonly string[];
    readonly SUPPORTED_SERVER_HOST_KEY: readonly string[];
  }
  const constants: Constants;
  export default constants;
}
