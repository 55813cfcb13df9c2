//! Finds the process that listens on a port in `/proc`.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use crate::identity::{Stat, numbers};

/// How the tables of the kernel write that a socket listens.
const LISTENS: &str = "0A";

/// A process that listens on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortHolder {
    /// Its pid.
    pub pid: u32,
    /// Its name, as the kernel has it: 15 bytes at most, and whatever the process chose.
    pub name: String,
    /// The pids of its parents, the nearest first.
    pub parents: Vec<u32>,
}

/// A socket that listens on a port of the network that this process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortListener {
    /// Where it listens.
    pub address: SocketAddr,
    /// The number of the socket.
    inode: u64,
}

impl PortListener {
    /// Reports whether a process has the socket open, as far as this user may look.
    pub fn is_of(&self, pid: u32) -> bool {
        has_open(pid, &self.link())
    }

    /// Returns a process that has the socket open; nothing if it is one that this user may not look
    /// at. It looks at every process of the machine.
    pub fn holder(&self) -> Option<PortHolder> {
        let link = self.link();
        let pid = numbers().ok()?.into_iter().find(|pid| has_open(*pid, &link))?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some(PortHolder { pid, name: name.trim_end().to_owned(), parents: parents(pid) })
    }

    fn link(&self) -> String {
        format!("socket:[{}]", self.inode)
    }
}

/// Returns the sockets that listen on a port of the network that this process is in, whatever the
/// address and whoever has them.
pub fn port_listeners(port: u16) -> Vec<PortListener> {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let tables = tables.iter().filter_map(|table| fs::read_to_string(table).ok());
    tables.flat_map(|table| listening(&table, port)).collect()
}

/// Returns a process that listens on a port, whatever the address; nothing if there is none, or if
/// it is one that this user may not look at.
pub fn port_holder(port: u16) -> Option<PortHolder> {
    port_listeners(port).iter().find_map(PortListener::holder)
}

/// Returns the sockets that listen on a port, of lines like
/// `0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 12345 …`.
fn listening(table: &str, port: u16) -> Vec<PortListener> {
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let address = socket_address(local)?;
        let is_it = *state == LISTENS && address.port() == port;
        is_it.then(|| Some(PortListener { address, inode: inode.parse().ok()? }))?
    };
    table.lines().filter_map(of_line).collect()
}

/// Reads an address as the kernel writes it: words of 32 bits as this machine has them in memory.
fn socket_address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let word = |at: usize| {
        let word = u32::from_str_radix(host.get(8 * at..8 * at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let host = match host.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            IpAddr::from(<[u8; 16]>::try_from(words).ok()?)
        }
        _ => return None,
    };
    Some(SocketAddr::new(host, u16::from_str_radix(port, 16).ok()?))
}

fn has_open(pid: u32, link: &str) -> bool {
    // One of another user, or one that has ended, is not the one to be found.
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.flatten().any(|entry| {
        let target = fs::read_link(entry.path());
        target.is_ok_and(|target| target == Path::new(link))
    })
}

fn parents(pid: u32) -> Vec<u32> {
    let parent = |pid: &u32| Some(Stat::of(*pid)?.parent).filter(|parent| *parent > 0);
    // A parent that ended meanwhile may have given its number away; no chain is that long.
    std::iter::successors(parent(&pid), parent).take(1000).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_that_listen_on_the_port_are_found() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1 0 100 0 0 10 0\n\
            1: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 78 1 0 20 4 30 10 -1\n\
            2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 79 1 0 100 0 0 10 0\n";
        let listener =
            |address: &str, inode| PortListener { address: address.parse().unwrap(), inode };
        assert_eq!(listening(table, 8080), [listener("127.0.0.1:8080", 77)]);
        assert_eq!(listening(table, 80), [listener("0.0.0.0:80", 79)]);
        assert_eq!(listening(table, 81), Vec::new());
        let table = "   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 80 1 0 100 0 0 10 0\n";
        assert_eq!(listening(table, 8080), [listener("[::1]:8080", 80)]);
    }

    #[test]
    fn whoever_listens_on_a_port_is_found_with_its_parents() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let found = port_holder(port).unwrap();
        let [socket] = port_listeners(port).try_into().unwrap();
        assert_eq!(socket.address, listener.local_addr().unwrap());
        assert!(socket.is_of(std::process::id()) && !socket.is_of(1));
        assert_eq!(found.pid, std::process::id());
        assert_eq!(found.parents.first(), Some(&std::os::unix::process::parent_id()));
        drop(listener);
        assert_eq!(port_holder(port), None);
    }
}
