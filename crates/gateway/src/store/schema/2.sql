-- What a request with an Idempotency-Key has begun: told to whoever repeats it after a crash.
ALTER TABLE replays ADD COLUMN session TEXT;
ALTER TABLE replays ADD COLUMN run TEXT;
