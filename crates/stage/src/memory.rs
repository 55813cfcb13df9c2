//! Memory that a process has to itself and does not need for now.
//!
//! What a program runs once, such as its start, stays in its memory for as long as it lives: the kernel maps
//! sixteen pages of the file for each one that is used, and takes none back while there is no want. A
//! service that idles for days gives them back itself. They stay in the kernel's cache, and are mapped
//! again when they are used again.

#![expect(unsafe_code, reason = "the kernel's advice and the C library's have no safe interface")]

use std::ops::Range;
use std::{fs, io};

/// Gives back the pages of this program's file that are mapped, and what the allocator has free. What
/// the process has written stays. It takes a few milliseconds.
pub fn release_unused() -> io::Result<()> {
    let program = fs::read_link("/proc/self/exe")?;
    let mappings = fs::read_to_string("/proc/self/smaps")?;
    // A path that is not text has no mapping, and nothing is released.
    for range in program.to_str().map(|path| unwritten(&mappings, path)).unwrap_or_default() {
        let length = range.end - range.start;
        // SAFETY: the range is a mapping of the program's own file, made before `main` and changed by nobody
        // since. It may not be written, and has no page that differs from the file (`unwritten`), so what
        // is read there afterwards is what was read there before.
        let advised = unsafe {
            libc::madvise(
                std::ptr::without_provenance_mut(range.start),
                length,
                libc::MADV_DONTNEED,
            )
        };
        if advised != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes locks of the allocator as every allocation does, and frees only what is free.
    unsafe {
        libc::malloc_trim(0);
    }
    Ok(())
}

/// Returns the mappings of a program that are its file as it is: they may not be written, and no page of
/// them was (as those are that the loader has corrected before it protected them).
fn unwritten(mappings: &str, program: &str) -> Vec<Range<usize>> {
    let (mut found, mut current) = (Vec::new(), None);
    for line in mappings.lines() {
        if let Some(header) = Header::of(line) {
            let is_own = header.path == program && !header.access.contains('w');
            current = is_own.then_some(header.range);
        } else if let Some(size) = line.strip_prefix("Anonymous:") {
            let range = current.take().filter(|_| size.trim() == "0 kB");
            found.extend(range);
        }
    }
    found
}

/// The first line of a mapping: `55d0c8a00000-55d0c8b00000 r-xp 00100000 fe:00 1234    /usr/bin/vestal`.
struct Header<'a> {
    range: Range<usize>,
    access: &'a str,
    path: &'a str,
}

impl<'a> Header<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let mut rest = line;
        let mut word = || {
            let (word, more) = rest.trim_start().split_once(' ')?;
            rest = more;
            Some(word)
        };
        let (start, end) = word()?.split_once('-')?;
        let number = |digits| usize::from_str_radix(digits, 16).ok();
        let range = number(start)?..number(end)?;
        let access = word()?;
        // Offset, device and inode.
        for _ in 0..3 {
            word()?;
        }
        Some(Self { range, access, path: rest.trim_start() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const MAPPINGS: &str = "\
5590c0000000-5590c1eed000 r--p 00000000 fe:00 8341 /usr/bin/my vestal
Size:              31668 kB
Rss:                4096 kB
Anonymous:             0 kB
VmFlags: rd mr mw me sd
5590c1eed000-5590c458f000 r-xp 01eec000 fe:00 8341 /usr/bin/my vestal
Rss:               27684 kB
Anonymous:             0 kB
5590c4590000-5590c473f000 r--p 0458e000 fe:00 8341 /usr/bin/my vestal
Rss:                1728 kB
Anonymous:          1728 kB
5590c4740000-5590c4749000 rw-p 0473d000 fe:00 8341 /usr/bin/my vestal
Anonymous:             0 kB
5590c5000000-5590c5200000 rw-p 00000000 00:00 0 [heap]
Anonymous:             0 kB
7f0000000000-7f0000100000 r-xp 00000000 fe:00 999 /usr/lib/libc.so.6
Anonymous:             0 kB
7f0000200000-7f0000300000 rw-p 00000000 00:00 0 
Anonymous:             0 kB
";

    #[test]
    fn only_what_is_the_programs_file_as_it_is_is_given_back() {
        let found = unwritten(MAPPINGS, "/usr/bin/my vestal");
        assert_eq!(found, [0x5590_c000_0000..0x5590_c1ee_d000, 0x5590_c1ee_d000..0x5590_c458_f000]);
        assert_eq!(unwritten(MAPPINGS, "/usr/bin/other"), []);
        assert_eq!(unwritten("", "/usr/bin/my vestal"), []);
    }

    static COUNTER: AtomicUsize = AtomicUsize::new(1);
    /// Addresses that the loader has corrected.
    static FUNCTIONS: [fn() -> usize; 2] = [|| 40, || COUNTER.load(Ordering::Relaxed)];

    #[test]
    fn a_program_goes_on_with_what_it_has_written() {
        COUNTER.store(2, Ordering::Relaxed);
        let kept: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
        let program = fs::read_link("/proc/self/exe").unwrap();
        let own = || {
            unwritten(&fs::read_to_string("/proc/self/smaps").unwrap(), program.to_str().unwrap())
        };
        assert!(own().len() >= 2, "its code and its constants: {:?}", own());
        for _ in 0..2 {
            release_unused().unwrap();
            assert_eq!(FUNCTIONS.iter().map(|function| function()).sum::<usize>(), 42);
            assert_eq!(kept.iter().map(String::len).sum::<usize>(), 38_890);
        }
    }
}
