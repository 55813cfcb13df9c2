//! Where the API server listens: who has its port when that is taken, and a socket that nobody else
//! can take.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;
use vestal_process::{PortHolder, PortListener, port_holder, port_listeners};
use vestal_sandbox::{Engine, TaskName};

/// A process that has the port of an API server. Whatever it is, it is sent the keys of clients that
/// take it for the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressHolder {
    /// The process.
    pub process: PortHolder,
    /// The task of the sandbox of this profile that it runs in.
    pub sandbox: Option<TaskName>,
}

impl AddressHolder {
    /// Finds who listens on a port of this machine.
    pub fn find(engine: &Engine, port: u16) -> Option<Self> {
        let process = port_holder(port)?;
        let family = std::iter::once(process.pid).chain(process.parents.iter().copied());
        let sandbox = engine.sandbox_of_processes(&family.collect::<Vec<_>>());
        Some(Self { process, sandbox })
    }
}

/// A socket that listens where clients look for an API server, or for the dashboard, and belongs to
/// another process. It is sent what they send: their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignListener {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whose it is, if this user may see that.
    pub holder: Option<PortHolder>,
}

/// Returns the sockets of others that clients of a server may reach in its place. `own` are the
/// processes that may listen there.
///
/// A client that is told `localhost` tries `[::1]` and `127.0.0.1`, one after the other. So every
/// loopback address of the port counts for a server on one of them.
pub fn foreign_listeners(host: &str, port: u16, own: &[u32]) -> Vec<ForeignListener> {
    let served = served_address(host);
    let is_in_its_place = |listener: &PortListener| {
        // An address of IPv4 can be listened at through IPv6.
        let found = listener.address.ip().to_canonical();
        let both_loopback = found.is_loopback() && served.is_none_or(|ip| ip.is_loopback());
        found.is_unspecified()
            || served.is_some_and(|ip| ip.is_unspecified() || ip == found)
            || both_loopback
    };
    let listeners = port_listeners(port).into_iter().filter(is_in_its_place);
    let foreign = listeners.filter(|listener| !own.iter().any(|pid| listener.is_of(*pid)));
    foreign
        .map(|listener| ForeignListener { address: listener.address, holder: listener.holder() })
        .collect()
}

/// Returns the address of a host; none for `localhost`, which is every address of the loopback, and
/// for other names, of which nothing is known here.
fn served_address(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

impl std::fmt::Display for AddressHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Its name is what it chose, also in a sandbox.
        write!(f, "; {:?} (pid {}) has the port", self.process.name, self.process.pid)?;
        let Some(task) = &self.sandbox else { return Ok(()) };
        write!(
            f,
            ", a process in the sandbox of task {task:?}, which shares this machine's network and may be sent the keys of clients: vestal stop -t {task:?} ends it; then make a new api_server.key",
            task = task.as_str()
        )
    }
}

/// Why the socket of the API server cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ApiSocketError {
    /// Others could put a socket of their own there.
    #[error(
        "{} (api_server.socket) is in a directory that is not yours alone; make it so: chmod 700 {}",
        path.display(), dir.display()
    )]
    Open {
        /// The socket.
        path: PathBuf,
        /// Its directory.
        dir: PathBuf,
    },
    /// Something else is there.
    #[error("{} (api_server.socket) is there and is not a socket; name another file", path.display())]
    Occupied {
        /// The file.
        path: PathBuf,
    },
    /// Another process serves on it.
    #[error(
        "{} (api_server.socket) is served by another process; each profile needs a socket of its own",
        path.display()
    )]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// It cannot be made.
    #[error("cannot listen on {} (api_server.socket): {source}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A socket in a directory of this user alone, so that no other process can take its place. It is
/// removed when it is dropped.
#[derive(Debug)]
pub(crate) struct ApiSocket {
    pub(crate) listener: UnixListener,
    pub(crate) path: PathBuf,
}

impl ApiSocket {
    /// Makes the socket, and its directory if need be. One that a gateway left which was killed gives
    /// way; there is one gateway of a profile at a time.
    pub(crate) fn listen(path: &Path) -> Result<Self, ApiSocketError> {
        let owned = || path.to_owned();
        let failed = |source| ApiSocketError::Io { path: owned(), source };
        let dir = path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        let found = fs::metadata(dir).map_err(failed)?;
        let is_own = found.uid() == rustix::process::getuid().as_raw();
        if !is_own || found.permissions().mode() & 0o077 != 0 {
            return Err(ApiSocketError::Open { path: owned(), dir: dir.to_owned() });
        }
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(ApiSocketError::Occupied { path: owned() });
            }
            Ok(_) if UnixStream::connect(path).is_ok() => {
                return Err(ApiSocketError::InUse { path: owned() });
            }
            Ok(_) => fs::remove_file(path).map_err(failed)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        Ok(Self { listener, path: owned() })
    }
}

impl Drop for ApiSocket {
    fn drop(&mut self) {
        // One that stays is replaced by the next gateway.
        fs::remove_file(&self.path).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    #[test]
    fn a_listener_in_the_place_of_a_server_is_seen_also_on_the_other_loopback_address() {
        let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = own.local_addr().unwrap().port();
        let me = [std::process::id()];
        assert_eq!(foreign_listeners("127.0.0.1", port, &me), []);
        // To anybody else this process is the foreign one.
        for host in ["127.0.0.1", "localhost", "0.0.0.0", "::1"] {
            let found = foreign_listeners(host, port, &[1]);
            let [found] = &found[..] else { panic!("{host}: {found:?}") };
            assert_eq!(found.address, own.local_addr().unwrap());
            assert_eq!(found.holder.as_ref().map(|holder| holder.pid), Some(me[0]));
        }
        assert_eq!(foreign_listeners("192.0.2.1", port, &[1]), []);
    }

    #[tokio::test]
    async fn a_socket_is_made_where_nobody_else_can_make_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("api/vestal.sock");
        let socket = ApiSocket::listen(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let second = ApiSocket::listen(&path).unwrap_err();
        assert!(matches!(second, ApiSocketError::InUse { .. }), "{second}");
        drop(socket);
        assert!(!path.exists());
        // What a killed gateway leaves.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        drop(ApiSocket::listen(&path).unwrap());
        fs::write(&path, "").unwrap();
        let file = ApiSocket::listen(&path).unwrap_err();
        assert!(matches!(file, ApiSocketError::Occupied { .. }), "{file}");
        let shared = dir.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
        let open = ApiSocket::listen(&shared.join("vestal.sock")).unwrap_err();
        assert!(matches!(open, ApiSocketError::Open { .. }), "{open}");
    }
}
