//! What a path of a request means in the sandbox.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use vestal_wire::{Fault, FaultCode};

use super::fault::refused;
use super::perform::Places;

/// Longest path the kernel takes, without its closing NUL.
pub(super) const MAX_PATH: usize = 4095;

/// Returns the absolute path that `raw` stands for. Doubled and trailing
/// slashes and `.` go; `..` stays, because only the kernel knows what it means
/// behind a symbolic link.
pub(super) fn resolve(raw: &[u8], places: &Places) -> Result<PathBuf, Fault> {
    if raw.is_empty() {
        return Err(Fault::new(FaultCode::Invalid, "the path is empty"));
    }
    if raw.contains(&0) {
        return Err(Fault::new(FaultCode::Invalid, "the path contains a NUL byte"));
    }
    let path = match raw.strip_prefix(b"~") {
        Some(b"") => places.home.clone(),
        Some([b'/', rest @ ..]) => {
            // A join with an absolute rest ("~//x") would leave the home.
            let rest = rest.iter().position(|&byte| byte != b'/').map_or(&[][..], |at| &rest[at..]);
            places.home.join(OsStr::from_bytes(rest))
        }
        _ => places.base.join(OsStr::from_bytes(raw)),
    };
    let path: PathBuf = path.components().collect();
    if path.as_os_str().len() > MAX_PATH {
        return Err(Fault::new(
            FaultCode::Invalid,
            format!("the path is longer than {MAX_PATH} bytes"),
        ));
    }
    Ok(path)
}

/// Tells whether a path of a request can only mean a directory.
pub(super) fn names_directory(raw: &[u8]) -> bool {
    raw.ends_with(b"/") || raw.ends_with(b"/.") || raw == b"." || raw == b"~"
}

/// Splits a path into the directory and the name in it. There is none for `/`
/// and behind a `..`: those are directories, and not ones an entry can be
/// removed or replaced by.
pub(super) fn split<'p>(path: &'p Path, doing: &str) -> Result<(&'p Path, CString), Fault> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let name = path.file_name().and_then(|name| CString::new(name.as_bytes()).ok());
    match (parent, name) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(refused(FaultCode::Invalid, doing, path, "it does not end in a name")),
    }
}

/// Returns the name as a path component.
pub(super) fn component(name: &std::ffi::CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places { home: "/home/me".into(), base: "/srv/space".into() }
    }

    fn resolved(raw: &[u8]) -> PathBuf {
        resolve(raw, &places()).unwrap()
    }

    #[test]
    fn a_tilde_is_the_home_of_the_sandbox() {
        assert_eq!(resolved(b"~"), Path::new("/home/me"));
        assert_eq!(resolved(b"~/x"), Path::new("/home/me/x"));
        assert_eq!(resolved(b"~//x"), Path::new("/home/me/x"));
        assert_eq!(resolved(b"~x"), Path::new("/srv/space/~x"));
    }

    #[test]
    fn relative_paths_start_at_the_base() {
        assert_eq!(resolved(b"a/./b//c/"), Path::new("/srv/space/a/b/c"));
        assert_eq!(resolved(b"../a"), Path::new("/srv/space/../a"));
        assert_eq!(resolved(b"/etc"), Path::new("/etc"));
    }

    #[test]
    fn bytes_that_are_no_text_are_kept() {
        assert_eq!(resolved(b"caf\xe9").as_os_str().as_bytes(), b"/srv/space/caf\xe9");
    }

    #[test]
    fn empty_nul_and_endless_paths_are_invalid() {
        for raw in [&b""[..], b"a\0b", &[b'x'; 5000]] {
            assert_eq!(resolve(raw, &places()).unwrap_err().code, FaultCode::Invalid);
        }
    }
}
