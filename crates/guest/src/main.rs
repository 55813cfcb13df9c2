//! The first process of every sandbox. See the crate's README.

#![cfg_attr(not(test), expect(unsafe_code, reason = "a function of the C library is replaced"))]

fn main() -> std::process::ExitCode {
    vestal_guest::main()
}

/// Replaces glibc's function, whose parser of `/proc/self/maps` adds 90 KB to a
/// static program. The standard library calls it for the bounds of a stack, to
/// name a stack overflow, and accepts a failure.
// SAFETY: the signature is glibc's, and nothing is written to the attributes,
// which callers must not read after a failure.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn pthread_getattr_np(
    _thread: libc::pthread_t,
    _attributes: *mut libc::pthread_attr_t,
) -> libc::c_int {
    libc::ENOSYS
}
