//! What the agent may get from the web, and how.

use vestal_config::{ByteSize, Group, Protection, Range, Seconds};

use crate::networks::AllowedNetworks;
use crate::site::SiteAddress;

vestal_config::choices! {
    /// Whether a person is asked before a page is fetched.
    FetchApproval, "known rule for fetching pages", {
        /// For each host where the sandboxes have no network, else nobody.
        Auto = "auto",
        /// Nobody is asked.
        Never = "never",
        /// For each host, by the rules of approvals.
        Hosts = "hosts",
    }
}

vestal_config::keys! {
    /// Address of a SearXNG instance whose search the agent may use (`https://search.example.org`;
    /// its settings must allow the format `json`). Without it there is no tool `web_search`.
    WEB_SEARCH_URL: SiteAddress = "web.search_url" {
        default: SiteAddress::EMPTY,
        limits: (),
        env: ["VESTAL_WEB_SEARCH_URL"],
    }

    /// Addresses (`192.168.1.20`), networks (`10.0.0.0/8`) and host names that the agent may fetch
    /// pages from though they are not public. This machine, its network and the metadata of clouds
    /// are refused otherwise.
    WEB_ALLOWED_NETWORKS: AllowedNetworks = "web.allowed_networks" {
        default: AllowedNetworks::EMPTY,
        limits: (),
        env: ["VESTAL_WEB_ALLOWED_NETWORKS"],
        protection: Protection::Guards,
    }

    /// Whether a person is asked before a page is fetched: `hosts` asks for each host, once, for the
    /// conversation or for always; `never` does not; `auto` asks where `terminal.docker_network` is
    /// off, so that what has no network in a sandbox does not get one through the agent.
    WEB_ASK: FetchApproval = "web.ask" {
        default: FetchApproval::Auto,
        limits: (),
        env: ["VESTAL_WEB_ASK"],
        protection: Protection::Guards,
    }

    /// Time that a search may take, and a page for each step of the way to it.
    WEB_TIMEOUT: Seconds = "web.timeout" {
        default: Seconds::new(30),
        limits: Range { min: 1, max: 600 },
        env: ["VESTAL_WEB_TIMEOUT"],
    }

    /// Bytes of a page that are read. Of a longer one the beginning is taken.
    WEB_MAX_BYTES: ByteSize = "web.max_bytes" {
        default: ByteSize::mib(5),
        limits: Range { min: 1024, max: 64 << 20 },
        env: ["VESTAL_WEB_MAX_BYTES"],
    }
}

/// The settings of this owner.
pub static GROUP: Group = Group::of(KEYS);
