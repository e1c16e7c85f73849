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
