//! Telling archives apart.

use std::io::{self, Read};

/// How an archive is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    /// Not at all.
    None,
    /// With gzip.
    Gzip,
}

/// A file that cannot be unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unknown {
    /// What it is.
    pub(super) problem: &'static str,
    /// What to do about it.
    pub(super) advice: &'static str,
}

/// Where a tar archive says that it is one.
const USTAR_AT: usize = 257;

/// Says what a file is by how it begins.
pub(super) fn recognise(mut file: impl Read) -> io::Result<Result<Compression, Unknown>> {
    let mut start = Vec::new();
    file.by_ref().take(512).read_to_end(&mut start)?;
    let unknown = |problem, advice| Err(Unknown { problem, advice });
    Ok(match start.as_slice() {
        [0x1f, 0x8b, ..] => Ok(Compression::Gzip),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            unknown("it is compressed with xz, which Vestal does not read", "unpack it: xz -d FILE")
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => unknown(
            "it is compressed with zstd, which Vestal does not read",
            "unpack it: zstd -d FILE",
        ),
        [b'B', b'Z', b'h', ..] => unknown(
            "it is compressed with bzip2, which Vestal does not read",
            "unpack it: bzip2 -d FILE",
        ),
        start if start.get(USTAR_AT..USTAR_AT + 5) == Some(b"ustar") => Ok(Compression::None),
        _ => unknown(
            "it is no tar archive",
            "name a directory or a tar archive, plain or compressed with gzip",
        ),
    })
}
