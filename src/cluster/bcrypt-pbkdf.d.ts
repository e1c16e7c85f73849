declare module 'bcrypt-pbkdf' {
  /** Fills `key` from the passphrase. @returns 0, or a negative number for arguments that it does not take */
  export function pbkdf(
    passphrase: Uint8Array,
    passphraseLength: number,
    salt: Uint8Array,
    saltLength: number,
    key: Uint8Array,
    keyLength: number,
    rounds: number,
  ): number;
}
