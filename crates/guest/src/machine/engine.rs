//! The container engine of this machine, for a host whose sandboxes are its containers.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Connects to the first engine that listens, or says where there was none.
///
/// One that is there and refuses this user is the one that is meant: no other is tried after it.
pub(super) fn connect() -> Result<UnixStream, String> {
    let user = rustix::process::geteuid();
    let runtime = of_the_login("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute());
    // Not every login has the variable.
    let runtime = runtime.unwrap_or_else(|| format!("/run/user/{}", user.as_raw()).into());
    connect_first(&sockets(of_the_login("DOCKER_HOST"), Path::new(&runtime), user.is_root())?)
}

#[expect(clippy::disallowed_methods, reason = "it is that of the login, and no setting")]
fn of_the_login(variable: &str) -> Option<OsString> {
    std::env::var_os(variable)
}

/// Returns where engines listen, in the order in which they are tried.
fn sockets(named: Option<OsString>, runtime: &Path, is_root: bool) -> Result<Vec<PathBuf>, String> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        let path = named.as_bytes().strip_prefix(b"unix://").map(OsStr::from_bytes);
        return match path.map(PathBuf::from).filter(|path| path.is_absolute()) {
            Some(path) => Ok(vec![path]),
            // What else is in it may hold a password.
            None => Err("DOCKER_HOST is set there, and is not unix:///path".to_owned()),
        };
    }
    let mut sockets = vec![
        PathBuf::from("/var/run/docker.sock"),
        PathBuf::from("/run/docker.sock"),
        runtime.join("docker.sock"),
        runtime.join("podman/podman.sock"),
    ];
    // Another user may not use it.
    if is_root {
        sockets.push(PathBuf::from("/run/podman/podman.sock"));
    }
    Ok(sockets)
}

fn connect_first(sockets: &[PathBuf]) -> Result<UnixStream, String> {
    for socket in sockets {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(format!("{}: {error}", socket.display())),
        }
    }
    let places: Vec<String> = sockets.iter().map(|socket| socket.display().to_string()).collect();
    Err(format!("no engine listens at {}", places.join(", ")))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_engine_that_the_login_names_is_the_only_one() {
        let runtime = Path::new("/run/user/7");
        let named = |text: &str| sockets(Some(text.into()), runtime, false);
        assert_eq!(named("unix:///srv/d.sock").unwrap(), [Path::new("/srv/d.sock")]);
        let refused = named("tcp://me:secret@far").unwrap_err();
        assert!(!refused.contains("secret"), "{refused}");
        let usual = sockets(None, runtime, false).unwrap();
        assert!(usual.contains(&"/run/user/7/podman/podman.sock".into()), "{usual:?}");
        assert!(!usual.contains(&"/run/podman/podman.sock".into()), "{usual:?}");
        assert!(sockets(None, runtime, true).unwrap().contains(&"/run/podman/podman.sock".into()));
    }

    #[test]
    fn the_first_that_listens_is_taken_and_without_one_all_places_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let [gone, dead, living] = ["gone", "dead", "living"].map(|name| dir.path().join(name));
        drop(UnixListener::bind(&dead).unwrap());
        let missing = connect_first(&[gone.clone(), dead.clone()]).unwrap_err();
        assert!(missing.contains("gone, ") && missing.ends_with("dead"), "{missing}");
        let listener = UnixListener::bind(&living).unwrap();
        let stream = connect_first(&[gone, dead, living]).unwrap();
        drop(stream);
        listener.accept().unwrap();
    }
}
