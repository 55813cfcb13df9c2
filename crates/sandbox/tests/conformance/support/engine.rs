//! The engine of a case, and of the other processes that it starts.

use std::sync::Arc;

use vestal_config::Settings;
use vestal_sandbox::{Engine, EngineOptions, Error};

use super::toy::Toy;

/// The variable that names the machine of the toy backend.
pub(crate) const TOY_ADDRESS: &str = "VESTAL_TEST_TOY";

/// Opens an engine whose backend is on the machine that the environment names, or an ordinary one
/// if it names none.
pub(crate) fn open(settings: Settings, options: EngineOptions) -> Result<Engine, Error> {
    match settings.environment().get(TOY_ADDRESS).and_then(|address| address.to_str()) {
        Some(address) => {
            let toy = Toy(address.to_owned());
            Engine::with_backends(settings, vec![Arc::new(toy)])
        }
        None => Engine::open_with(settings, options),
    }
}
