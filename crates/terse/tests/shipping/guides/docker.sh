# Starts an engine of Docker that ends with the sandbox. The released image is in terse-0.1.0-image-amd64.tar.gz, or one of the installed program.
groups=/terse-sandbox-$(date +%s%N)
# Where not even root may make control groups, there is no engine.
some=/sys/fs/cgroup/memory
[[ -d $some ]] || some=/sys/fs/cgroup
if ! mkdir "$some$groups"; then
    echo "not run: an engine of Docker needs control groups"
    exit 0
fi
mkdir -p /var/lib/docker
mount -t tmpfs tmpfs /var/lib/docker # an overlay cannot lie on the sandbox's own
dockerd --cgroup-parent "$groups" --storage-driver overlay2 --iptables=false --ip6tables=false >/var/log/docker.service.log 2>&1 &
engine=$!
trap 'docker ps -q | xargs -r docker rm -f >/dev/null; kill $engine; wait $engine; find /sys/fs/cgroup -depth -type d -path "*$groups*" -exec rmdir {} +' EXIT
for _ in $(seq 300); do
    if docker info >/dev/null 2>&1; then break; fi
    sleep 0.1
done
image=terse-0.1.0-image-amd64.tar.gz
if [[ -e /mnt/files/$image ]]; then
    cp "/mnt/files/$image" "$image"
else
    install -D -m 755 /usr/bin/terse context/image/terse
    mkdir -p context/image/data
    # The program of a test is not static.
    for library in $(ldd /usr/bin/terse | grep -o '/[^ ]*'); do install -D "$library" "context/libraries$library"; done
    # Without the stage that compiles, which this builder would run, too.
    sed '/^FROM docker/,/&& strip/d' /mnt/tree/deploy/Dockerfile >context/Dockerfile
    echo 'COPY libraries /' >>context/Dockerfile
    docker build --quiet --build-arg BINARY=prebuilt --tag terse:latest context
    docker save terse:latest | gzip -1 >"$image"
    docker image rm --force terse:latest >/dev/null
fi
