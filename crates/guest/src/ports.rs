//! TCP ports that processes of jobs listen on, from `/proc`.
//!
//! A sandbox may share the network of the machine. So a port counts only where one of its own
//! processes holds the socket.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use vestal_wire::limits::MAX_PORTS;
use vestal_wire::{JobId, ListeningPort};

use crate::process::tree;

/// The word for a socket that listens.
const LISTENING: &str = "0A";

/// A socket that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listener {
    address: IpAddr,
    port: u16,
    inode: u64,
}

/// A port, and the address to reach it at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundPort {
    pub(crate) address: IpAddr,
    pub(crate) shown: ListeningPort,
}

/// Returns the ports that processes below these supervisors listen on, by number.
pub(crate) fn listening(supervisors: &[(u32, Option<JobId>)]) -> Vec<FoundPort> {
    let listeners: Vec<Listener> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .into_iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| table.lines().filter_map(parse).collect::<Vec<_>>())
        .collect();
    let by_inode: HashMap<u64, Listener> =
        listeners.into_iter().map(|listener| (listener.inode, listener)).collect();
    let mut found: Vec<FoundPort> = Vec::new();
    if by_inode.is_empty() {
        return found;
    }
    for (supervisor, job) in supervisors {
        for pid in tree::descendants(*supervisor) {
            for listener in sockets(pid).filter_map(|inode| by_inode.get(&inode)) {
                let is_known = |known: &FoundPort| {
                    known.shown.port == listener.port && known.address == listener.address
                };
                // Processes inherit sockets: the first one stands for them.
                if found.iter().any(is_known) || found.len() == MAX_PORTS {
                    continue;
                }
                let shown = ListeningPort {
                    port: listener.port,
                    address: listener.address.to_string(),
                    pid,
                    program: program(pid),
                    job: job.clone(),
                };
                found.push(FoundPort { address: listener.address, shown });
            }
        }
    }
    found.sort_by_key(|found| (found.shown.port, found.address));
    found
}

/// Returns the inodes of the sockets that a process holds.
fn sockets(pid: u32) -> impl Iterator<Item = u64> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok();
    files.into_iter().flatten().filter_map(Result::ok).filter_map(|file| {
        let target = fs::read_link(file.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

/// Returns the name of a process's program.
fn program(pid: u32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

/// Reads a row of the kernel's table; nothing unless it is of a socket that listens.
fn parse(row: &str) -> Option<Listener> {
    let fields: Vec<&str> = row.split_ascii_whitespace().collect();
    if *fields.get(3)? != LISTENING {
        return None;
    }
    let (address, port) = fields.get(1)?.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(Listener { address: parse_address(address)?, port, inode: fields.get(9)?.parse().ok()? })
}

/// Reads an address: the kernel prints each four bytes of it as a number of this machine.
fn parse_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let digits = text.get(at * 8..(at + 1) * 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let bytes = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_a_listening_socket_has_its_address_port_and_inode() {
        let row = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  \
                   1000        0 4711 1 0000000000000000 100 0 0 10 0";
        let found = parse(row).unwrap();
        assert_eq!((found.port, found.inode), (8080, 4711));
        #[cfg(target_endian = "little")]
        assert_eq!(found.address, IpAddr::from(Ipv4Addr::LOCALHOST));
        let row = row.replace(" 0A ", " 01 ");
        assert_eq!(parse(&row), None, "it is a connection");
        for bad in ["", "sl local_address rem_address st", "0: x:y z:w 0A a b c d e f"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn addresses_of_both_kinds_are_read() {
        let address = |text| parse_address(text).unwrap().to_string();
        assert_eq!(address("00000000"), "0.0.0.0");
        assert_eq!(address("00000000000000000000000000000000"), "::");
        assert_eq!(address("00000000000000000000000001000000"), "::1");
        assert_eq!(address("0000000000000000FFFF00000100007F"), "127.0.0.1");
    }

    #[test]
    fn a_port_of_another_process_is_none_of_the_sandbox() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let own = sockets(std::process::id()).count();
        assert!(own > 0, "this process has it");
        // This process is not a descendant of itself.
        let found = listening(&[(std::process::id(), None)]);
        assert!(found.iter().all(|found| found.shown.port != port), "{found:?}");
    }
}
