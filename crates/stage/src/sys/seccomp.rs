//! Filters of calls.

#![expect(unsafe_code, reason = "a program is handed to the kernel")]

use std::io;

/// Bytes of an instruction.
const INSTRUCTION: usize = size_of::<libc::sock_filter>();

/// Installs a filter: an array of `sock_filter`.
pub(crate) fn install(program: &[u8]) -> io::Result<()> {
    let (chunks, rest) = program.as_chunks::<INSTRUCTION>();
    let length = u16::try_from(chunks.len()).ok().filter(|length| *length > 0);
    let (Some(length), true) = (length, rest.is_empty()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut instructions: Vec<libc::sock_filter> = chunks
        .iter()
        .map(|[c0, c1, jt, jf, k0, k1, k2, k3]| libc::sock_filter {
            code: u16::from_ne_bytes([*c0, *c1]),
            jt: *jt,
            jf: *jf,
            k: u32::from_ne_bytes([*k0, *k1, *k2, *k3]),
        })
        .collect();
    let program = libc::sock_fprog { len: length, filter: instructions.as_mut_ptr() };
    // SAFETY: the program points to as many instructions as it says, which
    // outlive the call. The kernel checks and copies them.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0_u32, &raw const program)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
