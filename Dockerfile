# The page of jaxrl: play, watch, follow runs. Images for clusters and GPUs: examples/cluster.
#   docker build -t jaxrl . && docker run --rm -p 127.0.0.1:8765:8765 -v jaxrl:/work jaxrl
# It prints an address with a token: open it with 127.0.0.1 as the host. Other commands: docker run ... jaxrl train --config skull_king_cpu
FROM python:3.12-slim-trixie
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/jaxrl
COPY . .
RUN pip install --no-cache-dir ".[web]"
WORKDIR /work
EXPOSE 8765
ENTRYPOINT ["jaxrl"]
CMD ["serve", "--host", "0.0.0.0"]
