//! The first process of every sandbox. See the crate's README.

#![cfg_attr(not(test), expect(unsafe_code, reason = "a function of the C library is replaced"))]

fn main() -> std::process::ExitCode {
    vestal_guest::main()
}

/// Takes the place of glibc's function, whose reader of `/proc/self/maps` puts 90 KB
/// into a static program. The standard library asks it for the bounds of a stack, to
/// call an overflow by its name, and takes a refusal for "unknown".
// SAFETY: the signature is glibc's, and nothing is written to the attributes, which
// callers must not read after a refusal.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn pthread_getattr_np(
    _thread: libc::pthread_t,
    _attributes: *mut libc::pthread_attr_t,
) -> libc::c_int {
    libc::ENOSYS
}
