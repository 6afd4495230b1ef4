// One interface over hls.js and Shaka Player, and what the tests ask of the page. Times in seconds.
"use strict";

const video = document.querySelector("video");
const faults = []; // whatever a player or the element complained about, in order
const fatal = Promise.withResolvers(); // rejected by the first complaint that ends playback
const sourceBuffers = [];
let own = 0; // seeks that a test asked for
let seen = 0; // seeks that happened: one that no test asked for is a player jumping over a hole

const addSourceBuffer = MediaSource.prototype.addSourceBuffer;
MediaSource.prototype.addSourceBuffer = function (type) {
  const buffer = addSourceBuffer.call(this, type);
  sourceBuffers.push({ type, buffer });
  return buffer;
};

fatal.promise.catch(() => {}); // every wait races against it; here only to be no unhandled rejection
video.addEventListener("error", () => complain(`media element: ${video.error.message}`, true));
video.addEventListener("seeking", () => (seen += 1));

function complain(what, isFatal) {
  faults.push(isFatal ? `${what} (fatal)` : what);
  if (isFatal) fatal.reject(new Error(what));
}

class HlsJs {
  async open(url) {
    this.hls = new Hls({ startLevel: 0 });
    this.hls.on(Hls.Events.ERROR, (_, error) => {
      // Not a fault: it cancels what it was loading, to load another rendition instead.
      if (error.details === Hls.ErrorDetails.INTERNAL_ABORTED) return;
      complain(`${error.type}: ${error.details}`, error.fatal);
    });
    await new Promise((resolve) => {
      this.hls.once(Hls.Events.MANIFEST_PARSED, resolve);
      this.hls.loadSource(url);
      this.hls.attachMedia(video);
    });
  }

  variants() {
    return this.hls.levels.map(({ width, height, bitrate }) => ({ width, height, bandwidth: bitrate }));
  }

  force(index) {
    this.hls.currentLevel = index;
  }

  switchAhead(index) {
    this.hls.nextLevel = index;
  }
}

class Shaka {
  async open(url) {
    this.player = new shaka.Player();
    this.player.addEventListener("error", ({ detail }) =>
      complain(`${detail.category}.${detail.code}: ${detail.data}`, detail.severity === shaka.util.Error.Severity.CRITICAL),
    );
    this.player.configure({ abr: { enabled: false }, streaming: { bufferingGoal: 6 } });
    await this.player.attach(video);
    await this.player.load(url);
  }

  variants() {
    return this.player.getVariantTracks().map(({ width, height, bandwidth }) => ({ width, height, bandwidth }));
  }

  force(index) {
    this.player.selectVariantTrack(this.player.getVariantTracks()[index], true);
  }

  switchAhead(index) {
    this.player.selectVariantTrack(this.player.getVariantTracks()[index], false);
  }
}

let player;

async function open(name, url) {
  player = { "hls.js": new HlsJs(), shaka: new Shaka() }[name];
  await Promise.race([player.open(url), fatal.promise]);
  await until(["loadedmetadata"], () => video.readyState >= HTMLMediaElement.HAVE_METADATA);
  return { duration: video.duration, variants: player.variants() };
}

// Waits until `condition` holds, looking at it whenever one of the events is fired.
function until(events, condition) {
  const held = new Promise((resolve) => {
    const look = () => {
      if (!condition()) return;
      events.forEach((name) => video.removeEventListener(name, look));
      resolve();
    };
    events.forEach((name) => video.addEventListener(name, look));
    look();
  });
  return Promise.race([held, fatal.promise]);
}

async function playOn(seconds) {
  await Promise.race([video.play(), fatal.promise]);
  const from = video.currentTime;
  await until(["timeupdate"], () => video.currentTime >= from + seconds);
  return state();
}

async function showing(width, height) {
  await until(["resize", "timeupdate"], () => video.videoWidth === width && video.videoHeight === height);
  return state();
}

async function seek(seconds) {
  own += 1;
  video.currentTime = seconds;
  await until(["seeked"], () => !video.seeking && Math.abs(video.currentTime - seconds) < 1);
  return state();
}

async function toTheEnd() {
  await until(["ended"], () => video.ended);
  return state();
}

function ranges(buffered) {
  return Array.from({ length: buffered.length }, (_, n) => [buffered.start(n), buffered.end(n)]);
}

function state() {
  return {
    time: video.currentTime,
    width: video.videoWidth,
    height: video.videoHeight,
    ended: video.ended,
    audio_bytes: video.webkitAudioDecodedByteCount,
    frames: video.getVideoPlaybackQuality().totalVideoFrames,
    buffered: Object.fromEntries(sourceBuffers.map(({ type, buffer }) => [type.split("/")[0], ranges(buffer.buffered)])),
    strange_seeks: seen - own,
    faults: [...faults],
  };
}
