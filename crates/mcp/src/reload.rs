//! The servers of a profile, read again from the settings while the program runs.

use std::sync::{Arc, Mutex, PoisonError};

use async_recursion::async_recursion as boxed;
use async_trait::async_trait;
use vestal_agent::{Tool, ToolSource};
use vestal_config::Settings;

use crate::server::ServerStatus;
use crate::servers::Servers;

/// The servers that the settings name now, and those of later settings after
/// [`ReloadableServers::reload`]. Conversations take the tools of the new ones with their next turn.
#[derive(Debug)]
pub struct ReloadableServers {
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    servers: Arc<Servers>,
    /// Makes versions of different servers differ.
    generation: u64,
}

impl ReloadableServers {
    /// Begins to connect to the servers that the settings name, as [`Servers::from_settings`] does.
    pub fn from_settings(settings: &Settings) -> Arc<Self> {
        let servers = Servers::from_settings(settings);
        Arc::new(Self { current: Mutex::new(Current { servers, generation: 0 }) })
    }

    /// Connects to the servers of these settings, waits for them as long as a first turn would,
    /// ends those from before, and returns how the new ones are doing. A call that is under way at
    /// one from before fails.
    #[boxed]
    pub async fn reload(&self, settings: &Settings) -> Vec<ServerStatus> {
        let servers = Servers::from_settings(settings);
        servers.settle().await;
        let before = {
            let mut current = self.lock();
            current.generation += 1;
            std::mem::replace(&mut current.servers, Arc::clone(&servers))
        };
        before.close().await;
        servers.statuses()
    }

    /// Returns how each server is doing, in order of name.
    pub fn statuses(&self) -> Vec<ServerStatus> {
        self.servers().statuses()
    }

    fn servers(&self) -> Arc<Servers> {
        Arc::clone(&self.lock().servers)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ToolSource for ReloadableServers {
    async fn settle(&self) {
        self.servers().settle().await;
    }

    fn version(&self) -> u64 {
        let current = self.lock();
        (current.generation << 32) | current.servers.version()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.servers().tools()
    }

    fn may_offer(&self, name: &str) -> bool {
        self.servers().may_offer(name)
    }

    fn take_notices(&self) -> Vec<String> {
        self.servers().take_notices()
    }
}
